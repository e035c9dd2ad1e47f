package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// IsBefore reports whether an item of an organisation is a counter, a closed total or an
// adjustment of days that all lie before one.
func IsBefore(item store.Item, org, day string) bool {
	var d store.Decoder
	key := store.KeyOf(item)
	switch {
	case key.PK == AuditPartition(org):
		of := d.String(item, store.AttrDay)
		return of != "" && of < day
	case strings.HasPrefix(key.PK, "T#ORG#"+org):
		of, _, _ := strings.Cut(key.SK, "#")
		return of < day
	case !strings.HasPrefix(key.PK, "ORG#"+org+"#"):
		return false
	}
	of, ok := strings.CutPrefix(key.SK, "DAY#")
	return ok && len(of) >= len(day) && of[:len(day)] < day
}

// Line is an item as a line of JSON.
func Line(item store.Item) ([]byte, error) {
	fields := make(map[string]any, len(item))
	for name, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			fields[name] = v.Value
		case *types.AttributeValueMemberN:
			fields[name] = json.Number(v.Value)
		case *types.AttributeValueMemberBOOL:
			fields[name] = v.Value
		default:
			return nil, fmt.Errorf("%w: attribute %s", store.ErrMalformed, name)
		}
	}
	var line bytes.Buffer
	to := json.NewEncoder(&line)
	to.SetEscapeHTML(false)
	err := to.Encode(fields)
	return line.Bytes(), err
}

// Expire lets an item go at an instant, in unix seconds, if it is as it was read. It
// reports whether that is so.
func (l *Ledger) Expire(ctx context.Context, item store.Item, at int64) (bool, error) {
	condition, names, values := "attribute_exists(#pk) AND ", map[string]string{"#pk": "PK", "#n": AttrSeq, "#t": store.AttrTTL}, store.Item{":t": store.Int(at)}
	if n, ok := item[AttrSeq]; ok {
		condition += "#n = :n"
		values[":n"] = n
	} else {
		condition += "attribute_not_exists(#n)"
	}
	err := store.Retry(ctx, func() error {
		_, err := l.Store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &l.Store.Usage, Key: store.KeyOf(item).Attributes(), UpdateExpression: aws.String("SET #t = :t"),
			ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return false, nil
	}
	return err == nil, err
}
