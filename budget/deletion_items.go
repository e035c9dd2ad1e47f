package budget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/audit"
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

// deletionWork is the note. The zero value is none.
type deletionWork struct {
	Since int64 `dynamodbav:"deleted_at_epoch_ms"`
	Purge bool  `dynamodbav:"purge"`
	// Prepared says that only a purge is left to do.
	Prepared bool `dynamodbav:"prepared"`
	// Pass is which scan a purge is at, and AfterPK and AfterSK the last key it looked at.
	Pass    int64  `dynamodbav:"pass"`
	AfterPK string `dynamodbav:"after_pk,omitempty"`
	AfterSK string `dynamodbav:"after_sk,omitempty"`
}

func (w deletionWork) none() bool       { return w.Since == 0 }
func (w deletionWork) since() time.Time { return time.UnixMilli(w.Since).UTC() }

// same reports whether both are of one deletion, however far.
func (w deletionWork) same(other deletionWork) bool {
	return w.Since == other.Since && w.Purge == other.Purge
}

func (w deletionWork) after() store.Key { return store.Key{PK: w.AfterPK, SK: w.AfterSK} }

// at is the note with the purge at a place.
func (w deletionWork) at(pass int64, after store.Key) deletionWork {
	w.Pass, w.AfterPK, w.AfterSK = pass, after.PK, after.SK
	return w
}

// condition is that the note is still of that deletion.
func (w deletionWork) condition() (text string, names map[string]string, values store.Item) {
	return "#s = :s AND #p = :p", map[string]string{"#s": "deleted_at_epoch_ms", "#p": "purge"},
		store.Item{":s": store.Int(w.Since), ":p": store.Bool(w.Purge)}
}

// covers reports whether a deletion that was begun does what is asked for.
func (w deletionWork) covers(purge, purged bool) bool { return !purge || w.Purge || purged }

// readWork reads the note.
func (adm *administration) readWork(ctx context.Context, org, app string) (w deletionWork, err error) {
	item, err := adm.store.Get(ctx, adm.store.Control, deletionKey(org, app))
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

// workItem is the item of a note.
func workItem(org, app string, w deletionWork) (store.Item, error) {
	item, err := attributevalue.MarshalMap(w)
	if err != nil {
		return nil, err
	}
	key := deletionKey(org, app)
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	return item, nil
}

// putWork is the write of the note, beside that of the item.
func (adm *administration) putWork(org, app string, w deletionWork) (types.TransactWriteItem, error) {
	item, err := workItem(org, app, w)
	return types.TransactWriteItem{Put: &types.Put{TableName: &adm.store.Control, Item: item}}, err
}

// moveWork writes how far a deletion is, if it is at the same pass as it was seen.
func (adm *administration) moveWork(ctx context.Context, org, app string, seen, next deletionWork) error {
	item, err := workItem(org, app, next)
	if err != nil {
		return err
	}
	condition, names, values := seen.condition()
	names["#pass"], values[":pass"] = "pass", store.Int(seen.Pass)
	return store.Retry(ctx, func() error {
		return adm.store.Put(ctx, adm.store.Control, item, condition+" AND #pass = :pass", names, values)
	})
}

// endWork removes the note, if it is still that one. It fails with errOvertaken if there is
// another: somebody asked for more.
func (adm *administration) endWork(ctx context.Context, org, app string, w deletionWork) error {
	condition, names, values := w.condition()
	err := store.Retry(ctx, func() error {
		_, err := adm.store.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &adm.store.Control, Key: deletionKey(org, app).Attributes(),
			ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) != ddb.Refused {
		return err
	}
	now, err := adm.readWork(ctx, org, app)
	if err == nil && !now.none() {
		err = errOvertaken
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
	return adm.putAsSeen(m, seen, slices.Sorted(maps.Keys(seen))...), nil
}

// markOrg makes the organisation's item say that it is deleted.
func (d *deletion) markOrg(ctx context.Context) error {
	return d.admin.commit(ctx, func() (*change, error) { return d.admin.decideOrgDeletion(ctx, d.by, d.org, d.how.Purge, &d.work) })
}

// decideOrgDeletion is the change that deletes an organisation; nil if it is deleted, and
// what was counted is not to be removed or is being removed. work is what is left to do.
func (adm *administration) decideOrgDeletion(ctx context.Context, by, org string, purge bool, work *deletionWork) (*change, error) {
	now := adm.now()
	seen, err := adm.loadOrg(ctx, org)
	gone := seen.Deleted != 0
	if err != nil && !gone && !isEnforced(err) {
		return nil, err
	}
	if *work, err = adm.readWork(ctx, org, ""); err != nil {
		return nil, err
	}
	if gone && work.covers(purge, seen.Purged) {
		return nil, nil
	}
	last := orgItem{configItem: configItem{Version: seen.Version + 1, Created: seen.Created, Updated: now.Unix(), Deleted: now.Unix()}}
	last.AppsVersion, last.Labels, last.Purges = seen.AppsVersion, seen.Labels, seen.Purges
	last.Zone, last.Scope, last.Shards = seen.Zone, seen.Scope, seen.Shards
	*work = deletionWork{Since: now.UnixMilli(), Purge: purge}
	e, before := AuditEvent{Principal: by, Action: actionOrgDeleted, Target: org}, seen.org(org).fields()
	if gone {
		last.Deleted, before = seen.Deleted, nil
	}
	last.Retired, last.RetiredAt = seen.Retired, seen.RetiredAt
	if purge {
		last.Retired, last.RetiredAt = "", 0
		last.Labels, last.Purges, last.Purged = nil, seen.Purges+1, true
	}
	return adm.deletionChange(e, before, purge, func() ([]types.TransactWriteItem, error) {
		item, err := adm.tombstone(orgKey(org), last, store.Item{"cfg_version": store.Int(seen.Version), "apps_version": store.Int(seen.AppsVersion)})
		if err != nil {
			return nil, err
		}
		note, err := adm.putWork(org, "", *work)
		return []types.TransactWriteItem{item, note}, err
	})
}

// deletionChange is the change of a deletion, with its event.
func (adm *administration) deletionChange(e AuditEvent, before audit.Fields, purge bool, writes func() ([]types.TransactWriteItem, error)) (*change, error) {
	event, err := adm.trail.event(adm.now(), e, before, audit.Fields{"purge": present(purge)})
	if err != nil {
		return nil, err
	}
	all, err := writes()
	return &change{all, event}, err
}

// markApp makes the app's item say that it is deleted.
func (d *deletion) markApp(ctx context.Context) error {
	if _, err := d.admin.loadOrg(ctx, d.org); err != nil {
		return err
	}
	return d.admin.commit(ctx, func() (*change, error) {
		return d.admin.decideAppDeletion(ctx, d.by, d.org, d.app, d.how.Purge, &d.work)
	})
}

// decideAppDeletion is decideOrgDeletion for an app. Its override goes with it. A nil work
// is of the organisation's deletion, which needs no note for each app.
func (adm *administration) decideAppDeletion(ctx context.Context, by, org, app string, purge bool, work *deletionWork) (*change, error) {
	seen, err := adm.loadApp(ctx, org, app)
	if err != nil && !seen.deleted() {
		return nil, err
	}
	if work != nil {
		if *work, err = adm.readWork(ctx, org, app); err != nil {
			return nil, err
		}
	}
	if seen.deleted() && (work == nil || work.covers(purge, seen.Purged)) {
		return nil, nil
	}
	now := adm.now()
	last, before := seen.buried(now, purge), seen.app(app).fields()
	if seen.deleted() {
		before = nil
	}
	e := AuditEvent{Principal: by, Action: actionAppDeleted, Target: org, Resource: app}
	return adm.deletionChange(e, before, purge, func() ([]types.TransactWriteItem, error) {
		item, err := adm.tombstone(appKey(org, app), last, store.Item{"cfg_version": store.Int(seen.Version)})
		writes := []types.TransactWriteItem{item, adm.deleteOverride(org, app)}
		if err != nil || work == nil {
			return writes, err
		}
		*work = deletionWork{Since: now.UnixMilli(), Purge: purge}
		note, err := adm.putWork(org, app, *work)
		return append(writes, note), err
	})
}

// deleteOverride is the write that ends an app's override, if there is one.
func (adm *administration) deleteOverride(org, app string) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &adm.store.Control, Key: overrideKey(org, app).Attributes()}}
}

// buried is what stays of an app.
func (i appItem) buried(now time.Time, purge bool) appItem {
	last := appItem{configItem: configItem{
		Version: i.Version + 1, Created: i.Created, Updated: now.Unix(), Deleted: cmp.Or(i.Deleted, now.Unix()), Purges: i.Purges, Purged: purge,
	}}
	if purge {
		last.Purges++
	}
	return last
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
	work, err := adm.readWork(ctx, org, app)
	if err != nil || work.none() {
		return err
	}
	e := &deletingError{what: "organisation " + org, call: "DeleteOrg"}
	if app != "" {
		e.what, e.call = fmt.Sprintf("app %q", app), "DeleteApp"
	}
	if work.Purge {
		e.at = work.since().Add(adm.purgeAfter)
		e.wait = max(0, e.at.Sub(adm.now()))
	}
	return e
}

// isDeleted reports whether an organisation is deleted, or its app.
func (adm *administration) isDeleted(ctx context.Context, org, app string) (bool, error) {
	key := orgKey(org)
	if app != "" {
		key = appKey(org, app)
	}
	item, err := adm.store.Get(ctx, adm.store.Control, key)
	return item["deleted_at_epoch"] != nil, err
}

// deletedOrg reports whether an item is what stayed of an organisation.
func deletedOrg(o orgItem, err error) bool { return errors.Is(err, ErrNotFound) && o.Deleted != 0 }
