package store

import (
	"context"
	"crypto/rand"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Transaction is a transaction that charges several buckets.
type Transaction struct {
	// Items are the writes of the buckets.
	Items []types.TransactWriteItem
	// Token lets DynamoDB recognise a repeated request, for ten minutes.
	Token string
	// creates are the buckets that the transaction makes, by their place among the items. sent means that it
	// was sent before.
	creates map[int]*schema.Create
	sent    bool
}

// NewTransaction returns an empty transaction with a token of its own.
func NewTransaction() Transaction { return Transaction{Token: rand.Text()} }

// Transact sends a transaction, once. It returns the items of failed conditions as images, by their place.
type Transact func(ctx context.Context, t *Transaction, slot int) (ddb.Verdict, map[int]*schema.Image, error)

// AddWrite appends the conditional write of a lane's bucket to a transaction, and sends nothing. If the write
// creates the bucket, it also fills in the bucket's keys in w, and notes the create in t.
func (b *Buckets) AddWrite(t *Transaction, at *lane.Lane, w *plan.Write, o schema.Op) {
	if w.Kind == plan.Create {
		w.Create.Keys, w.Create.Entity, w.Create.Resource = b.Keys, at.Entity, at.Resource
		if t.creates == nil {
			t.creates = map[int]*schema.Create{}
		}
		t.creates[len(t.Items)] = w.Create
	}
	st := w.Statement(o)
	t.Items = append(t.Items, types.TransactWriteItem{Update: &types.Update{
		TableName: &b.Table.Name, Key: at.Key(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}})
}

// Transact sends a transaction, once, and returns the images of buckets with failed conditions, by their place
// among the items. If a bucket to create has items of the older layout, it converts these instead, and returns
// a refusal with their images. It looks for them only before the transaction's first send.
func (b *Buckets) Transact(ctx context.Context, t *Transaction, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
	if !t.sent && len(t.creates) > 0 && !b.Layout.CompositeOnly() {
		if v, images, err := b.Takeover.convertInsteadOfCreates(ctx, t.creates, slot); v != ddb.Landed {
			return v, images, err
		}
	}
	t.sent = true
	_, err := b.Once.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: t.Items, ClientRequestToken: &t.Token})
	if err == nil {
		return ddb.Landed, nil, nil
	}
	d := ddb.Classify(err, ctx)
	images := make(map[int]*schema.Image, len(d.Items))
	for i, item := range d.Items {
		image, decodeErr := b.Decode(item, nil, slot)
		if decodeErr != nil {
			return ddb.Failed, nil, decodeErr
		}
		if images[i] = image; image == nil && t.creates[i] != nil {
			return ddb.Failed, nil, errWithoutItem
		}
	}
	if d.Verdict == ddb.TokenMismatch { // tokens are drawn at random: this is a bug of ours
		d.Verdict = ddb.Failed
	}
	return d.Verdict, images, b.Table.Failure("charge in a transaction", err)
}
