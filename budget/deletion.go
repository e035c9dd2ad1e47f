package budget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// purgeAfter is how long after a deletion no process counts for the tenant any more: a
// configuration is used for Options.usableFor, and a write takes a while.
// administration.purgeAfter is it with the options.
const purgeAfter = usableFor + time.Minute

// Deletion says how an organisation or an app is deleted. The zero value keeps what was
// counted and leaves credentials alone.
type Deletion struct {
	// Purge removes what was counted, too: counters, totals, tags, records, adjustments,
	// events and the sticky record. Defaults to keeping it.
	Purge bool
	// Revoke ends the credentials of the organisation (its app is "") and of each app;
	// (*credentials.Store).Delete does. It is called before the deletion is complete, again
	// if that was interrupted, and must do nothing the second time. Defaults to nothing.
	Revoke func(ctx context.Context, org, app string) error
	// Progress is told how far a purge is, once for each page that it read, on the goroutine
	// of the call. Defaults to nothing.
	Progress func(DeletionReport)
	// Pages is how many pages of the usage table, of 1 MB, a purge reads in this call; the
	// next goes on after them. Defaults to all.
	Pages int
}

// DeletionReport is what a deletion did.
type DeletionReport struct {
	Apps    int // that were deleted with their organisation
	Scanned int // items of the usage table looked at by a purge
	Purged  int // items removed by it
	// Complete says that nothing is left to do: the tenant may be put again.
	Complete bool
	// Again is when to call again, if it is not Complete: other processes may have counted
	// until then, or it is the present and there are further pages.
	Again time.Time
}

// DeleteOrg deletes an organisation with its apps. From the moment its item says so nothing
// is admitted or counted for it any more: by this process at once, by others within
// Options.ConfigTTL, or five minutes while they cannot read the control table. Calls fail
// with ErrNotFound then. What was counted is kept, or removed with
// Deletion.Purge, which reads the whole usage table and is not Complete before other
// processes are certain to have noticed: call it again at DeletionReport.Again, or have
// FinishDeletions do so.
//
// It may be called again at any time, and goes on where one that was interrupted stopped.
// Until it is Complete, PutOrg fails with ErrConflict, so that no credentials and no app
// outlive their organisation; RetryAfter of that is when it can be completed. An organisation
// that is put again goes on with the next version, and with what was kept; each of its apps must
// be put again.
//
// The deletion and that of each app have an AuditEvent; events stay.
//
// Errors: *ValidationError, ErrNotFound for one that never was, ErrConflict,
// *UnavailableError, those of Deletion.Revoke. The report has what was done before.
func (k *Keeper) DeleteOrg(ctx context.Context, org string, how Deletion) (DeletionReport, error) {
	by, err := k.author(ctx)
	if err != nil {
		return DeletionReport{}, err
	}
	if err := validUUID("org_id", org); err != nil {
		return DeletionReport{}, err
	}
	d := &deletion{charges: k.charges, by: by, org: org, how: how}
	err = d.run(ctx, "DeleteOrg", d.markOrg, d.deleteApps)
	return d.report, err
}

// DeleteApp deletes an app, as DeleteOrg does an organisation. Where the organisation's
// quotas count all apps together, what the app spent stays in them. PutApp creates it again;
// a call does not.
func (k *Keeper) DeleteApp(ctx context.Context, org, app string, how Deletion) (DeletionReport, error) {
	by, err := k.author(ctx)
	if err != nil {
		return DeletionReport{}, err
	}
	if err := validTarget(org, app); err != nil {
		return DeletionReport{}, err
	}
	d := &deletion{charges: k.charges, by: by, org: org, app: app, how: how}
	err = d.run(ctx, "DeleteApp", d.markApp)
	return d.report, err
}

// deletion is one that runs.
type deletion struct {
	*charges
	by, org, app string // app is empty for the whole organisation
	how          Deletion
	report       DeletionReport
	work         deletionWork // what is left to do, as it is stored
}

// run deletes: first the mark, in one transaction, after which the tenant is found no more;
// then the rest, each step of which does nothing the second time; and in the end the note
// that there is a rest.
func (d *deletion) run(ctx context.Context, operation string, mark func(context.Context) error, steps ...func(context.Context) error) error {
	err := mark(ctx)
	d.tenants.evict(d.org)
	for _, step := range append(steps, d.revoke, d.prepared, d.purge, d.finish) {
		if err == nil {
			err = step(ctx)
		}
	}
	if errors.Is(err, errOvertaken) {
		d.report.Again = d.now()
		return nil
	}
	return adminError(operation, err)
}

// errOvertaken says that the deletion was completed by somebody else, or is for more now:
// the tenant may have been put again, so that nothing more of it may be touched.
var errOvertaken = errors.New("budget: the deletion was overtaken")

// still fails with errOvertaken if the deletion is another now than the one that runs, or was
// complete when that began and the tenant has been put again.
func (d *deletion) still(ctx context.Context) error {
	work, err := d.admin.readWork(ctx, d.org, d.app)
	same := work.same(d.work)
	if err == nil && same && work.none() {
		same, err = d.admin.isDeleted(ctx, d.org, d.app)
	}
	if err == nil && !same {
		err = errOvertaken
	}
	return err
}

// commit commits what lands while the deletion is not complete, as remove does.
func (d *deletion) commit(ctx context.Context, decide func() (*change, error)) error {
	return d.admin.commit(ctx, func() (*change, error) {
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
	apps, err := d.admin.loadApps(ctx, d.org)
	if err != nil {
		return err
	}
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		if !apps[app].deleted() {
			err = d.commit(ctx, func() (*change, error) { return d.admin.decideAppDeletion(ctx, d.by, d.org, app, false, nil) })
			d.report.Apps++
		}
		if err != nil {
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
			e := AuditEvent{Principal: d.by, Action: actionOverrideCleared, Target: d.org, Resource: app}
			err = d.commit(ctx, func() (*change, error) { return d.admin.decideOverride(ctx, e, override{}) })
		}
	}
	return err
}

// revoke ends credentials: those of the apps first.
func (d *deletion) revoke(ctx context.Context) error {
	if d.how.Revoke == nil || d.work.Prepared {
		return nil
	}
	apps := []string{d.app}
	if d.app == "" {
		all, err := d.admin.appIDs(ctx, d.org)
		if err != nil {
			return err
		}
		apps = append(slices.Sorted(slices.Values(all)), "")
	}
	for _, app := range apps {
		if err := d.still(ctx); err != nil {
			return err
		}
		if err := d.how.Revoke(ctx, d.org, app); err != nil {
			return err
		}
	}
	return nil
}

// finish removes the note that there is something to do.
func (d *deletion) finish(ctx context.Context) error {
	if !d.report.Again.IsZero() {
		return nil
	}
	d.report.Complete = true
	if d.work.none() {
		return nil
	}
	err := d.admin.endWork(ctx, d.org, d.app, d.work)
	d.report.Complete = err == nil
	return err
}

// deletingError is ErrConflict: a deletion is to be completed first.
type deletingError struct {
	what, call string
	wait       time.Duration // until the call can complete it
	at         time.Time     // when that is
}

// Error implements error.
func (e *deletingError) Error() string {
	when := ""
	if e.wait > 0 {
		when = ", at " + e.at.Add(time.Second-1).Truncate(time.Second).Format(time.RFC3339) + " or later"
	}
	return fmt.Sprintf("%v: %s is being deleted: complete that with %s first%s", ErrConflict, e.what, e.call, when)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *deletingError) Is(target error) bool { return target == ErrConflict }

// RetryIn is what RetryAfter returns.
func (e *deletingError) RetryIn() (time.Duration, bool) { return e.wait, true }
