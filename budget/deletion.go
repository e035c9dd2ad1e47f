package budget

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Revoke ends the credentials of an organisation (its app is "") or of an app;
// (*credentials.Store).Delete does. It is called before the deletion is complete, again if
// that was interrupted, and must do nothing the second time.
type Revoke func(ctx context.Context, org, app string) error

// deletion is one that runs.
type deletion struct {
	store        *store.Store
	admin        *administration
	by, org, app string // app is empty for the whole organisation
	revoke       Revoke
	work         deletionWork // what is left to do, as it is stored
}

// run deletes: first the mark, in one transaction, after which the tenant is found no more;
// then the rest, each step of which does nothing the second time; and in the end the note
// that there is a rest.
func (d *deletion) run(ctx context.Context, operation string, mark func(context.Context) error, steps ...func(context.Context) error) error {
	err := mark(ctx)
	d.admin.tenants.evict(d.org)
	for _, step := range append(steps, d.endCredentials, d.finish) {
		if err == nil {
			err = step(ctx)
		}
	}
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return adminError(operation, err)
}

// still fails with errOvertaken if the deletion is another now than the one that runs, or was
// complete when that began and the tenant has been put again.
func (d *deletion) still(ctx context.Context) error {
	work, err := d.admin.notes.readWork(ctx, d.org, d.app)
	same := work == d.work
	if err == nil && same && work.none() {
		same, err = d.admin.notes.isDeleted(ctx, d.org, d.app)
	}
	if err == nil && !same {
		err = errOvertaken
	}
	return err
}

// commit commits what lands while the deletion is not complete, as remove does.
func (d *deletion) commit(ctx context.Context, decide func() (*change, error)) error {
	return d.admin.desk.commit(ctx, func() (*change, error) {
		if err := d.still(ctx); err != nil {
			return nil, err
		}
		c, err := decide()
		if c != nil {
			c.writes = append(c.writes, d.noted())
		}
		return c, err
	})
}

// noted is a condition in a transaction: that the deletion is the one that runs.
func (d *deletion) noted() types.TransactWriteItem {
	condition, names, values := d.work.condition()
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &d.store.Control, Key: deletionKey(d.org, d.app).Attributes(),
		ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
}

// deleteApps deletes the apps of an organisation whose deletion is not complete: one that is
// has none, and may have been put again.
func (d *deletion) deleteApps(ctx context.Context) error {
	if d.work.none() {
		return nil
	}
	apps, err := d.admin.items.loadApps(ctx, d.org)
	if err != nil {
		return err
	}
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		if err := d.commit(ctx, func() (*change, error) { return d.admin.decideAppDeletion(ctx, d.by, d.org, app, nil) }); err != nil {
			return err
		}
	}
	return d.endOverrides(ctx)
}

// endOverrides ends those of apps that have no item: no app was there to end them with.
func (d *deletion) endOverrides(ctx context.Context) error {
	var apps []string
	err := d.store.Query(ctx, d.store.Control, orgKey(d.org).PK, overPrefix, overPrefix+"~", func(item store.Item) error {
		apps = append(apps, store.KeyOf(item).SK[len(overPrefix):])
		return nil
	})
	for _, app := range apps {
		if err == nil {
			e := audit.Event{Principal: d.by, Action: actionOverrideCleared, Target: d.org, Resource: app}
			err = d.commit(ctx, func() (*change, error) { return d.admin.decideOverride(ctx, e, override{}) })
		}
	}
	return err
}

// endCredentials ends those of the apps, and then the organisation's.
func (d *deletion) endCredentials(ctx context.Context) error {
	if d.revoke == nil {
		return nil
	}
	apps := []string{d.app}
	if d.app == "" {
		all, err := d.admin.items.appIDs(ctx, d.org)
		if err != nil {
			return err
		}
		apps = append(slices.Sorted(slices.Values(all)), "")
	}
	for _, app := range apps {
		if err := d.still(ctx); err != nil {
			return err
		}
		if err := d.revoke(ctx, d.org, app); err != nil {
			return err
		}
	}
	return nil
}

// finish removes the note that there is something to do.
func (d *deletion) finish(ctx context.Context) error {
	if d.work.none() {
		return nil
	}
	return d.admin.notes.endWork(ctx, d.org, d.app, d.work)
}
