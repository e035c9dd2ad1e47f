package budget

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// deletionKey is the note of an app's deletion, or of the whole organisation's.
func deletionKey(org, app string) store.Key {
	key := orgKey(org)
	key.SK = deletionPrefix
	if app != "" {
		key.SK += appPrefix + app
	}
	return key
}

// deletionWork is the note, which says when the deletion began. The zero value is none.
type deletionWork struct {
	Since int64 `dynamodbav:"deleted_at_epoch_ms"`
}

func (w deletionWork) none() bool { return w.Since == 0 }

// condition is that the note is still of that deletion.
func (w deletionWork) condition() (text string, names map[string]string, values store.Item) {
	return "#s = :s", map[string]string{"#s": "deleted_at_epoch_ms"}, store.Item{":s": store.Int(w.Since)}
}

// notes are those of deletions that are not complete.
type notes struct{ store *store.Store }

// readWork reads the note.
func (n notes) readWork(ctx context.Context, org, app string) (w deletionWork, err error) {
	item, err := n.store.Get(ctx, n.store.Control, deletionKey(org, app))
	if err != nil || item == nil {
		return w, err
	}
	return decodeWork(item)
}

func decodeWork(item store.Item) (w deletionWork, err error) {
	if err := attributevalue.UnmarshalMap(item, &w); err != nil {
		key := store.KeyOf(item)
		return w, fmt.Errorf("%w: %s %s: %w", store.ErrMalformed, key.PK, key.SK, err)
	}
	return w, nil
}

// putWork is the write of the note, beside that of the item.
func (n notes) putWork(org, app string, w deletionWork) types.TransactWriteItem {
	item := deletionKey(org, app).Attributes()
	item["deleted_at_epoch_ms"] = store.Int(w.Since)
	return types.TransactWriteItem{Put: &types.Put{TableName: &n.store.Control, Item: item}}
}

// endWork removes the note, if it is still that one: another is of a later deletion.
func (n notes) endWork(ctx context.Context, org, app string, w deletionWork) error {
	condition, names, values := w.condition()
	err := store.Retry(ctx, func() error {
		_, err := n.store.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &n.store.Control, Key: deletionKey(org, app).Attributes(),
			ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return errOvertaken
	}
	return err
}

// isDeleted reports whether an organisation is deleted, or its app.
func (n notes) isDeleted(ctx context.Context, org, app string) (bool, error) {
	key := orgKey(org)
	if app != "" {
		key = appKey(org, app)
	}
	item, err := n.store.Get(ctx, n.store.Control, key)
	return item["deleted_at_epoch"] != nil, err
}

// errOvertaken says that the deletion was completed by somebody else: the tenant may have been
// put again, so that nothing more of it may be touched.
var errOvertaken = errors.New("budget: the deletion was overtaken")
