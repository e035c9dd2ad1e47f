package budget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// What stays of an organisation or app that was deleted is its item, with its version and
// little else, so that it is never taken for one that never was. Until the deletion is
// complete there is a note beside it.

// deletionPrefix begins the sort keys of the notes.
const deletionPrefix = "DELETION#"

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

// tombstone is the write of what stays of an item, if that is as it was read.
func (adm *administration) tombstone(key store.Key, item any, seen store.Item) (types.TransactWriteItem, error) {
	m, err := attributevalue.MarshalMap(item)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	m["PK"], m["SK"] = store.String(key.PK), store.String(key.SK)
	return adm.desk.putAsSeen(m, seen, slices.Sorted(maps.Keys(seen))...), nil
}

// markOrg makes the organisation's item say that it is deleted.
func (d *deletion) markOrg(ctx context.Context) error {
	return d.admin.desk.commit(ctx, func() (*change, error) { return d.admin.decideOrgDeletion(ctx, d.by, d.org, &d.work) })
}

// decideOrgDeletion is the change that deletes an organisation; nil if it is deleted. work is
// what is left to do.
func (adm *administration) decideOrgDeletion(ctx context.Context, by, org string, work *deletionWork) (*change, error) {
	now := adm.now()
	seen, err := adm.loadOrg(ctx, org)
	if err != nil && !seen.deleted() && !isEnforced(err) {
		return nil, err
	}
	if seen.deleted() {
		*work, err = adm.notes.readWork(ctx, org, "")
		return nil, err
	}
	last := orgItem{configItem: configItem{Version: seen.Version + 1, Created: seen.Created, Updated: now.Unix(), Deleted: now.Unix()}}
	last.AppsVersion, last.Labels = seen.AppsVersion, seen.Labels
	last.Zone, last.Scope, last.Shards = seen.Zone, seen.Scope, seen.Shards
	*work = deletionWork{Since: now.UnixMilli()}
	event, err := adm.desk.event(now, AuditEvent{Principal: by, Action: actionOrgDeleted, Target: org}, seen.org(org).fields(), nil)
	if err != nil {
		return nil, err
	}
	item, err := adm.tombstone(orgKey(org), last, store.Item{"cfg_version": store.Int(seen.Version), "apps_version": store.Int(seen.AppsVersion)})
	return &change{[]types.TransactWriteItem{item, adm.notes.putWork(org, "", *work)}, event}, err
}

// markApp makes the app's item say that it is deleted.
func (d *deletion) markApp(ctx context.Context) error {
	if _, err := d.admin.loadOrg(ctx, d.org); err != nil {
		return err
	}
	return d.admin.desk.commit(ctx, func() (*change, error) {
		return d.admin.decideAppDeletion(ctx, d.by, d.org, d.app, &d.work)
	})
}

// decideAppDeletion is decideOrgDeletion for an app. Its override goes with it. A nil work
// is of the organisation's deletion, which needs no note for each app.
func (adm *administration) decideAppDeletion(ctx context.Context, by, org, app string, work *deletionWork) (*change, error) {
	seen, err := adm.loadApp(ctx, org, app)
	if err != nil && !seen.deleted() {
		return nil, err
	}
	if seen.deleted() {
		if work == nil {
			return nil, nil
		}
		*work, err = adm.notes.readWork(ctx, org, app)
		return nil, err
	}
	now := adm.now()
	event, err := adm.desk.event(now, AuditEvent{Principal: by, Action: actionAppDeleted, Target: org, Resource: app}, seen.app(app).fields(), nil)
	if err != nil {
		return nil, err
	}
	last := appItem{configItem: configItem{Version: seen.Version + 1, Created: seen.Created, Updated: now.Unix(), Deleted: now.Unix()}}
	item, err := adm.tombstone(appKey(org, app), last, store.Item{"cfg_version": store.Int(seen.Version)})
	writes := []types.TransactWriteItem{item, deleteOverride(adm.store.Control, org, app)}
	if work != nil {
		*work = deletionWork{Since: now.UnixMilli()}
		writes = append(writes, adm.notes.putWork(org, app, *work))
	}
	return &change{writes, event}, err
}

// deleteOverride is the write that ends an app's override, if there is one.
func deleteOverride(control, org, app string) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &control, Key: overrideKey(org, app).Attributes()}}
}

// loadApp reads an app's item; ErrNotFound with what stayed of one that was deleted.
func (adm *administration) loadApp(ctx context.Context, org, app string) (appItem, error) {
	item, err := adm.store.Get(ctx, adm.store.Control, appKey(org, app))
	if err != nil {
		return appItem{}, err
	}
	if item == nil {
		return appItem{}, notFound("app %q of organisation %s", app, org)
	}
	a, err := decodeApp(item)
	if err == nil && a.deleted() {
		err = appDeleted(org, app)
	}
	return a, err
}

func appDeleted(org, app string) error {
	return notFound("app %q of organisation %s was deleted; create it again with PutApp", app, org)
}

// mayBePutAgain refuses to create again what is still being deleted.
func (adm *administration) mayBePutAgain(ctx context.Context, org, app string) error {
	work, err := adm.notes.readWork(ctx, org, app)
	if err != nil || work.none() {
		return err
	}
	what, call := "organisation "+org, "DeleteOrg"
	if app != "" {
		what, call = fmt.Sprintf("app %q", app), "DeleteApp"
	}
	return fmt.Errorf("%w: %s is being deleted: complete that with %s first", ErrConflict, what, call)
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

// deletedOrg reports whether an item is what stayed of an organisation.
func deletedOrg(o orgItem, err error) bool { return errors.Is(err, ErrNotFound) && o.Deleted != 0 }
