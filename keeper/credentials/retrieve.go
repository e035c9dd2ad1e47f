package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Attributes of an item that hands a secret out.
const (
	attrSealed  = "sealed"
	attrExpires = "expires_at_epoch"
	attrUsed    = "used_at_epoch" // absent: unused
)

// usedKept is how long a token is known to have been used.
const usedKept = 7 * 24 * time.Hour

func handoutKey(hash string) store.Key { return store.Key{PK: "RETRIEVAL#" + hash, SK: rootSK} }

// unfetched reports whether nobody fetched a client's last secret. void are the writes that keep
// it so, in the transaction that replaces the secret.
func (c *core) unfetched(ctx context.Context, a account) (void []types.TransactWriteItem, unfetched bool, err error) {
	if a.handout == "" {
		return nil, false, nil
	}
	key := handoutKey(a.handout)
	item, err := c.items.Get(ctx, c.items.Control, key)
	if err != nil || item[attrSealed] == nil {
		return nil, false, err
	}
	return []types.TransactWriteItem{{Update: &types.Update{
		TableName: &c.items.Control, Key: key.Attributes(), UpdateExpression: aws.String("REMOVE #sealed"),
		ConditionExpression:      aws.String("attribute_exists(#sealed)"),
		ExpressionAttributeNames: map[string]string{"#sealed": attrSealed},
	}}}, true, nil
}

// handout is the item by which a client's secret is fetched.
func (c *core) handout(a account, token, secret Secret, now time.Time) (store.Item, error) {
	sealed, err := seal(token, secret, a.org, a.app, a.revision)
	if err != nil {
		return nil, err
	}
	item := handoutKey(a.handout).Attributes()
	item[attrOrg], item[attrRevision], item[attrVersion] = store.String(a.org), store.Int(a.revision), store.Int(a.version)
	if a.app != "" {
		item[attrApp] = store.String(a.app)
	}
	item[attrSealed] = &types.AttributeValueMemberB{Value: sealed}
	expires := now.Add(RetrievalTTL)
	item[attrExpires], item[store.AttrTTL] = store.Int(expires.Unix()), store.Int(expires.Add(usedKept).Unix())
	return item, nil
}

// Credentials are a client's id and its secret.
type Credentials struct {
	Identity
	// Secret is what the client logs in with.
	Secret Secret
}

// Retrieve hands out the secret behind a retrieval token, once: of calls at the same time
// one gets it. The secret is deleted with that, and nobody can bring it back; who loses it
// rotates.
//
// Errors: ErrTokenInvalid, and then nothing was consumed; ErrTokenUsed, also of a token
// that has expired since or whose secret was replaced; *ValidationError; *UnavailableError: unless it is Unconfirmed
// nothing was consumed.
func (s *Store) Retrieve(ctx context.Context, org, app string, token Secret) (Credentials, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Credentials{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Credentials{}, err
	}
	if len(token.Reveal()) > maxSecret {
		return Credentials{}, ErrTokenInvalid
	}
	item, err := s.core.items.Get(ctx, s.core.items.Control, handoutKey(tokenHash(token)))
	if err != nil {
		return Credentials{}, failure("Retrieve", err)
	}
	h, err := s.core.unused(item, org, app)
	if err != nil {
		return Credentials{}, failure("Retrieve", err)
	}
	secret, err := open(token, h.sealed, org, app, h.revision)
	if err != nil {
		return Credentials{}, err
	}
	if err := s.core.use(ctx, token); err != nil {
		return Credentials{}, failure("Retrieve", err)
	}
	s.core.counts.retrievals.Add(1)
	return Credentials{Identity{ClientID: ClientID(org, app), Org: org, App: app, Version: h.version}, secret}, nil
}

// sealedSecret is a secret that was not handed out yet, and which it is.
type sealedSecret struct {
	sealed            []byte
	revision, version int64
}

// unused is what a token's item seals for an organisation or app, or why it is not handed
// out: used wins over expired.
func (c *core) unused(item store.Item, org, app string) (sealedSecret, error) {
	var d store.Decoder
	misplaced := d.String(item, attrOrg) != org || d.String(item, attrApp) != app
	h := sealedSecret{revision: d.Int(item, attrRevision), version: d.Int(item, attrVersion)}
	used, expires := d.Int(item, attrUsed), time.Unix(d.Int(item, attrExpires), 0)
	blob, _ := item[attrSealed].(*types.AttributeValueMemberB)
	switch {
	case d.Err != nil:
		return h, d.Err
	case item == nil, misplaced:
		return h, ErrTokenInvalid
	case used != 0, blob == nil:
		return h, ErrTokenUsed
	case !c.now().Before(expires):
		return h, ErrTokenInvalid
	}
	h.sealed = blob.Value
	return h, nil
}

// use marks a token as used and deletes what it seals, if nobody else was quicker. A use
// whose answer was lost recognises itself.
func (c *core) use(ctx context.Context, token Secret) error {
	writer := store.NewID()
	err := store.Retry(ctx, func() error {
		_, err := c.items.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &c.items.Control, Key: handoutKey(tokenHash(token)).Attributes(),
			UpdateExpression:    aws.String("SET #used = :now, #writer = :writer REMOVE #sealed"),
			ConditionExpression: aws.String("attribute_exists(#sealed) AND attribute_not_exists(#used)"),
			ExpressionAttributeNames: map[string]string{
				"#used": attrUsed, "#writer": store.AttrWriter, "#sealed": attrSealed,
			},
			ExpressionAttributeValues:           store.Item{":now": store.Int(c.now().Unix()), ":writer": store.String(writer)},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) != ddb.Refused {
		return err
	}
	var d store.Decoder
	if d.String(store.RefusedItem(err), store.AttrWriter) == writer {
		return nil
	}
	return ErrTokenUsed
}
