package budget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// putOrg creates an organisation or replaces its configuration, with defaults for empty fields and an audit
// event, and returns the stored one. It returns a *fault.ValidationError for a bad field, and ErrConflict
// unless org.Version permits it. It always drops the organisation's cached configurations after the write.
func (adm *administration) putOrg(ctx context.Context, by string, org Org) (Org, error) {
	org = org.withDefaults()
	if err := org.validate(); err != nil {
		return Org{}, err
	}
	writer := store.NewID()
	var stored orgItem
	err := adm.desk.commit(ctx, func() (c *change, err error) {
		stored, c, err = adm.decideOrg(ctx, by, org, writer)
		return c, err
	})
	adm.tenants.evict(org.ID)
	if err != nil {
		return Org{}, adminError("PutOrg", err)
	}
	return stored.asOrg(org.ID), nil
}

// NoVersion as the Version in a PUT of an Org or App means: only if it does not exist.
const NoVersion = -1

// checkVersion returns ErrConflict, with what as the item's name, unless a PUT with version may replace the
// stored item. Version 0 replaces any, a negative one only a missing or deleted item, and any other only its
// own version.
func (c configItem) checkVersion(what string, version int64) error {
	stored := c.Version
	if c.isDeleted() {
		stored = 0
	}
	switch {
	case version == 0, version == stored, version < 0 && stored == 0:
		return nil
	case stored == 0:
		return fmt.Errorf("%w: %s does not exist; put it without the version %d", ErrConflict, what, version)
	case version < 0:
		return fmt.Errorf("%w: %s exists, in version %d; read it, change that and put it", ErrConflict, what, stored)
	}
	return fmt.Errorf("%w: %s has version %d, not %d; read it again, change that and put it", ErrConflict, what, stored, version)
}

// decideOrg reads the stored organisation and its apps, and returns the new item with the change that stores
// it; it writes nothing. It fails with ErrConflict for a wrong version, or a *fault.ValidationError if an app
// would become invalid. The change is nil if an earlier try of writer's PUT landed.
func (adm *administration) decideOrg(ctx context.Context, by string, org Org, writer string) (orgItem, *change, error) {
	now := adm.now()
	seen, err := adm.loadBeforePut(ctx, org.ID)
	if err != nil || seen.Writer == writer {
		return seen, nil, err
	}
	if err := seen.checkVersion("organisation "+org.ID, org.Version); err != nil {
		return orgItem{}, nil, err
	}
	apps, err := adm.items.loadApps(ctx, org.ID)
	if err != nil {
		return orgItem{}, nil, err
	}
	created := now
	if seen.Zone != "" { // also if it was deleted: the stored sums depend on the zone
		created = time.Unix(seen.Created, 0)
		if org, err = org.keepFixedFields(seen); err != nil {
			return orgItem{}, nil, err
		}
	}
	org.Timezone, org.Scope = cmp.Or(org.Timezone, defaultZone), cmp.Or(org.Scope, ScopeApp)
	labels := mergeLabels(seen.Labels, org.Ordering...)
	for _, id := range slices.Sorted(maps.Keys(apps)) {
		if apps[id].isDeleted() {
			continue
		}
		a := apps[id].asAppWithID(id)
		if err := validateApp(org, a); err != nil {
			return orgItem{}, nil, err
		}
		labels = mergeLabels(labels, a.Ordering...)
	}
	item := newOrgItem(org, created, now, seen.Version+1, writer)
	item.Past = pastModels(seen.Past, seen.Models, item.Models, now)
	item.Labels, item.AppsVersion = labels, seen.AppsVersion
	c, err := adm.orgChange(now, by, org.ID, item, seen)
	return item, c, err
}

// keepFixedFields returns o with the time zone and scope of the stored item, which a PUT cannot change. If o
// has other values than empty or the same, it returns a *fault.ValidationError.
func (o Org) keepFixedFields(seen orgItem) (Org, error) {
	const advice = "%s is %s and cannot be changed, because stored sums depend on it; leave it as it is, or put a new organisation"
	switch {
	case o.Timezone != "" && o.Timezone != seen.Zone:
		return o, invalidConfig("timezone", advice, "the time zone", seen.Zone)
	case o.Scope != "" && o.Scope != seen.Scope:
		return o, invalidConfig("quota_scope", advice, "the scope", seen.Scope)
	}
	o.Timezone, o.Scope = seen.Zone, seen.Scope
	return o, nil
}

// loadBeforePut reads an organisation's item before a PUT: also the tombstone of a complete deletion, or the
// zero item if none is stored. An unfinished deletion is ErrConflict, an unenforceable configuration a
// *fault.ValidationError.
func (adm *administration) loadBeforePut(ctx context.Context, org string) (orgItem, error) {
	seen, err := adm.items.loadOrg(ctx, org)
	switch {
	case isDeletedOrg(seen, err):
		err = seen.checkComplete("organisation "+org, fault.DeleteOrg)
	case errors.Is(err, ErrNotFound):
		err = nil
	}
	return seen, err
}

// orgChange returns the change that stores item as an organisation, with an audit event in the name of by; it
// writes nothing. seen is the item before: if it is zero or deleted, the event is a creation, else an update.
func (adm *administration) orgChange(now time.Time, by, id string, item, seen orgItem) (*change, error) {
	e := audit.Event{Principal: by, Action: actionOrgCreated, Target: id}
	var before trail.Fields
	if seen.Version != 0 && !seen.isDeleted() {
		e.Action, before = actionOrgUpdated, seen.asOrg(id).eventFields()
	}
	event, err := adm.desk.newEvent(now, e, before, item.asOrg(id).eventFields())
	if err != nil {
		return nil, err
	}
	write, err := adm.items.newOrgWrite(id, item, seen)
	return &change{[]types.TransactWriteItem{write}, event}, err
}

// validateApp returns a *fault.ValidationError, with the app and the field, if the app's configuration with the
// fields inherited from org is invalid. It does not check the app's id and name.
func validateApp(org Org, app App) error {
	err := policyOf(org, app, org.Scope).validate()
	var v *fault.ValidationError
	if errors.As(err, &v) {
		return &fault.ValidationError{Package: pkg, Field: v.Field, Code: v.Code, Reason: fmt.Sprintf("app %q: %s", app.ID, v.Reason)}
	}
	return err
}

// putApp creates an app or replaces its configuration, with an audit event in the name of by, and returns the
// stored one. It returns ErrNotFound without the organisation, and ErrConflict unless app.Version permits it.
// It always drops the organisation's cached configurations after the write.
func (adm *administration) putApp(ctx context.Context, by, org string, app App) (App, error) {
	if err := validUUID("org_id", org); err != nil {
		return App{}, err
	}
	if err := app.validate(); err != nil {
		return App{}, err
	}
	writer := store.NewID()
	var stored appItem
	err := adm.desk.commit(ctx, func() (c *change, err error) {
		stored, c, err = adm.decideApp(ctx, by, org, app, writer)
		return c, err
	})
	adm.tenants.evict(org)
	if err != nil {
		return App{}, adminError("PutApp", err)
	}
	return stored.asAppWithID(app.ID), nil
}

// decideApp reads the stored app and returns its new item with the change that stores it and its labels; it
// writes nothing. It fails with ErrConflict for a wrong version or an unfinished deletion. The change is nil if
// an earlier try of this PUT, with writer as its id, has stored the item.
func (adm *administration) decideApp(ctx context.Context, by, org string, app App, writer string) (appItem, *change, error) {
	now := adm.now()
	o, err := adm.items.loadOrg(ctx, org)
	if err != nil {
		return appItem{}, nil, err
	}
	apps, err := adm.items.loadApps(ctx, org)
	if err != nil {
		return appItem{}, nil, err
	}
	seen := apps[app.ID]
	if seen.Writer == writer {
		return seen, nil, nil
	}
	if err := seen.checkComplete(fmt.Sprintf("app %q", app.ID), fault.DeleteApp); err != nil {
		return appItem{}, nil, err
	}
	if err := seen.checkVersion(fmt.Sprintf("app %q", app.ID), app.Version); err != nil {
		return appItem{}, nil, err
	}
	if err := validateApp(o.asOrg(org), app); err != nil {
		return appItem{}, nil, err
	}
	created := now
	if seen.Created != 0 {
		created = time.Unix(seen.Created, 0)
	}
	o.Labels = mergeLabels(o.Labels, app.Ordering...)
	item := appItem{configItem: newConfigItem(app, created, now, seen.Version+1, writer), Name: app.Name}
	item.Past = pastModels(seen.Past, seen.Models, item.Models, now)
	c, err := adm.appChange(now, audit.Event{Principal: by, Target: org, Resource: app.ID}, item, seen, o)
	return item, c, err
}

// appChange returns the change that stores item as an app, adds o's labels to its organisation, and has the
// audit event e; it writes nothing. seen is the app's item before. It sets e.Action to a creation unless seen
// has a version and is not deleted.
func (adm *administration) appChange(now time.Time, e audit.Event, item, seen appItem, o orgItem) (*change, error) {
	e.Action = actionAppCreated
	if seen.Version != 0 && !seen.isDeleted() {
		e.Action = actionAppUpdated
	}
	event, err := adm.desk.newEvent(now, e, seen.asAppWithID(e.Resource).eventFields(), item.asAppWithID(e.Resource).eventFields())
	if err != nil {
		return nil, err
	}
	writes, err := adm.items.newAppWrites(e.Target, e.Resource, item, seen, o)
	return &change{writes, event}, err
}

// getOrg reads an organisation's configuration from the store, without a cache. It returns ErrNotFound if it
// does not exist or was deleted, and a *fault.ValidationError for a bad id or a configuration that cannot be
// enforced.
func (adm *administration) getOrg(ctx context.Context, org string) (Org, error) {
	if err := validUUID("org_id", org); err != nil {
		return Org{}, err
	}
	item, err := adm.items.loadOrg(ctx, org)
	if err != nil {
		return Org{}, adminError("GetOrg", err)
	}
	return item.asOrg(org), nil
}

// getApp reads an app's own configuration from the store, without a cache and inherited fields. It returns
// ErrNotFound if the app does not exist, or if it or its organisation was deleted, and a *fault.ValidationError
// for a bad id.
func (adm *administration) getApp(ctx context.Context, org, app string) (App, error) {
	if err := validUUID("org_id", org); err != nil {
		return App{}, err
	}
	if err := validName("app_id", app); err != nil {
		return App{}, err
	}
	items, err := adm.store.BatchGet(ctx, adm.store.Control, orgKey(org), appKey(org, app))
	if err != nil {
		return App{}, adminError("GetApp", err)
	}
	if o, err := decodeOrg(org, items[orgKey(org)]); isDeletedOrg(o, err) {
		return App{}, err
	}
	a, err := decodeLiveApp(org, app, items[appKey(org, app)])
	if err != nil {
		return App{}, adminError("GetApp", err)
	}
	return a.asAppWithID(app), nil
}

// listApps returns an iterator that reads an organisation's apps, and yields those that are not deleted,
// ordered by id. An error is the only element: ErrNotFound if the organisation was deleted. An unknown
// organisation gives no element.
func (adm *administration) listApps(ctx context.Context, org string) iter.Seq2[App, error] {
	return func(yield func(App, error) bool) {
		o, err := adm.items.loadOrg(ctx, org)
		if isDeletedOrg(o, err) {
			yield(App{}, err)
			return
		}
		apps, err := adm.items.loadApps(ctx, org)
		if err != nil {
			yield(App{}, wrapFailure("Apps", err))
			return
		}
		for _, id := range slices.Sorted(maps.Keys(apps)) {
			if !apps[id].isDeleted() && !yield(apps[id].asAppWithID(id), nil) {
				return
			}
		}
	}
}

// listOrgs returns an iterator that scans the control table for organisations, in no order, without deleted
// ones. Unreadable ones come last, each with its id and error. A failed scan yields the error and ends.
func (adm *administration) listOrgs(ctx context.Context) iter.Seq2[Org, error] {
	return func(yield func(Org, error) bool) {
		refused := map[string]error{}
		for item, err := range adm.desk.scanRoots(ctx, orgPrefix, false) {
			if err != nil {
				yield(Org{}, wrapFailure("Orgs", err))
				return
			}
			id := store.KeyOf(item).PK[len(orgPrefix):]
			switch o, err := decodeOrg(id, item); {
			case errors.Is(err, ErrNotFound):
			case err != nil:
				refused[id] = err
			case !yield(o.asOrg(id), nil):
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(refused)) {
			if !yield(Org{ID: id}, refused[id]) {
				return
			}
		}
	}
}
