package budget

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// What stays of an organisation or app that was deleted is its item, with its version and
// little else, so that it is never taken for one that never was. Until the deletion is
// complete there is a note beside it.

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
	seen, err := adm.items.loadOrg(ctx, org)
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
	event, err := adm.desk.event(now, audit.Event{Principal: by, Action: actionOrgDeleted, Target: org}, seen.org(org).fields(), nil)
	if err != nil {
		return nil, err
	}
	item, err := adm.tombstone(orgKey(org), last, store.Item{"cfg_version": store.Int(seen.Version), "apps_version": store.Int(seen.AppsVersion)})
	return &change{[]types.TransactWriteItem{item, adm.notes.putWork(org, "", *work)}, event}, err
}

// markApp makes the app's item say that it is deleted.
func (d *deletion) markApp(ctx context.Context) error {
	if _, err := d.admin.items.loadOrg(ctx, d.org); err != nil {
		return err
	}
	return d.admin.desk.commit(ctx, func() (*change, error) {
		return d.admin.decideAppDeletion(ctx, d.by, d.org, d.app, &d.work)
	})
}

// decideAppDeletion is decideOrgDeletion for an app. Its override goes with it. A nil work
// is of the organisation's deletion, which needs no note for each app.
func (adm *administration) decideAppDeletion(ctx context.Context, by, org, app string, work *deletionWork) (*change, error) {
	seen, err := adm.items.loadApp(ctx, org, app)
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
	event, err := adm.desk.event(now, audit.Event{Principal: by, Action: actionAppDeleted, Target: org, Resource: app}, seen.app(app).fields(), nil)
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

// mayBePutAgain refuses to create again what is still being deleted.
func (adm *administration) mayBePutAgain(ctx context.Context, org, app string) error {
	work, err := adm.notes.readWork(ctx, org, app)
	if err != nil || work.none() {
		return err
	}
	what, call := "organisation "+org, fault.DeleteOrg
	if app != "" {
		what, call = fmt.Sprintf("app %q", app), fault.DeleteApp
	}
	return &problem.Fixable{Err: fmt.Errorf("%w: %s is being deleted: first complete that", ErrConflict, what), Fix: call}
}
