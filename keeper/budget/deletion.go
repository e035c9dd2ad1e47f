package budget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Revoke ends the credentials of an app, or of an organisation and all its apps if app is "".
// (*credentials.Store).Delete has this form. An interrupted deletion calls it again, so the
// second call must have no effect.
type Revoke func(ctx context.Context, org, app string) error

// deletion deletes an organisation or an app. A tombstone replaces the item. It keeps the
// version, and gets a time to live when the deletion is complete. Until then a PUT of the
// organisation or app fails.
type deletion struct {
	admin        *administration
	by, org, app string // app is empty for the whole organisation
	revoke       Revoke // nil leaves the credentials alone
	keepDays     int

	tombstone configItem
}

// errOvertaken means that another call completed the deletion. The organisation or app may
// exist again, so this call must stop.
var errOvertaken = errors.New("budget: the deletion was overtaken")

// deleteAll stores a tombstone with an audit event, drops cached configurations, deletes the apps and
// credentials, and lets the tombstone expire. A repetition completes an interrupted deletion. It returns nil if
// a PUT or another deletion has replaced the tombstone meanwhile.
func (d *deletion) deleteAll(ctx context.Context, operation string) error {
	settings, err := d.admin.settings.readSettings(ctx)
	if err != nil {
		return adminError(operation, err)
	}
	d.keepDays = settings.KeepDays
	decide := d.decideApp
	if d.app == "" {
		decide = d.decideOrg
	}
	err = d.admin.desk.commit(ctx, func() (*change, error) { return decide(ctx, d.app) })
	d.admin.tenants.evict(d.org)
	if err == nil && d.tombstone.Expires == 0 { // not complete before
		err = d.completeDeletion(ctx)
	}
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return adminError(operation, err)
}

// completeDeletion deletes the organisation's apps, calls d.revoke unless it is nil, and then gives the
// tombstone a time to live, which completes the deletion. It returns errOvertaken if the tombstone has been
// replaced.
func (d *deletion) completeDeletion(ctx context.Context) error {
	if d.app == "" {
		if err := d.deleteApps(ctx); err != nil {
			return err
		}
	}
	if d.revoke != nil {
		if err := d.checkTombstone(ctx); err != nil {
			return err
		}
		if err := d.revoke(ctx, d.org, d.app); err != nil {
			return err
		}
	}
	err := store.Retry(ctx, func() error {
		_, err := d.admin.store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &d.admin.store.Control, Key: d.itemKey().Attributes(), UpdateExpression: aws.String("SET #ttl = :ttl"),
			ConditionExpression:       aws.String("#v = :v"),
			ExpressionAttributeNames:  map[string]string{"#ttl": store.AttrTTL, "#v": "cfg_version"},
			ExpressionAttributeValues: store.Item{":ttl": store.Int(d.expirySeconds()), ":v": store.Int(d.tombstone.Version)},
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return errOvertaken
	}
	return err
}

// itemKey returns the key in the control table of the item to delete: the app's, or the organisation's if d.app
// is empty.
func (d *deletion) itemKey() store.Key {
	if d.app == "" {
		return orgKey(d.org)
	}
	return appKey(d.org, d.app)
}

// expirySeconds returns the expiry of the tombstone in unix seconds: d.keepDays and two days from now, when all
// counters have expired.
func (d *deletion) expirySeconds() int64 { return d.admin.now().AddDate(0, 0, d.keepDays+2).Unix() }

// checkTombstone reads the stored item again, and returns errOvertaken unless it has the version of
// d.tombstone: a PUT or another deletion has replaced it.
func (d *deletion) checkTombstone(ctx context.Context) error {
	item, err := d.admin.store.Get(ctx, d.admin.store.Control, d.itemKey())
	var read store.Decoder
	if err == nil && read.Int(item, "cfg_version") != d.tombstone.Version {
		err = errOvertaken
	}
	return err
}

// decideOrg reads the organisation, sets d.tombstone, and returns the change that stores it; it writes nothing.
// The change is nil if the organisation is deleted already; a missing one is ErrNotFound. It accepts a
// configuration that this version cannot enforce.
func (d *deletion) decideOrg(ctx context.Context, _ string) (*change, error) {
	now := d.admin.now()
	seen, err := d.admin.items.loadOrg(ctx, d.org)
	if seen.isDeleted() {
		d.tombstone = seen.configItem
		return nil, nil
	}
	if err != nil && !isEnforcedError(err) {
		return nil, err
	}
	last := orgItem{
		configItem: seen.tombstone(now), AppsVersion: seen.AppsVersion, Labels: seen.Labels, Zone: seen.Zone, Scope: seen.Scope, Shards: seen.Shards,
	}
	d.tombstone = last.configItem
	event, err := d.admin.desk.newEvent(now, audit.Event{Principal: d.by, Action: actionOrgDeleted, Target: d.org}, seen.asOrg(d.org).eventFields(), nil)
	if err != nil {
		return nil, err
	}
	write, err := d.newTombstoneWrite(orgKey(d.org), last, store.Item{"cfg_version": store.Int(seen.Version), "apps_version": store.Int(seen.AppsVersion)})
	return &change{[]types.TransactWriteItem{write}, event}, err
}

// decideApp reads an app and returns the change that replaces it by a tombstone and deletes its override, or
// nil for a deleted app. It sets d.tombstone if d.app is set. Otherwise the organisation's tombstone must be
// unchanged, and without an item only the override goes.
func (d *deletion) decideApp(ctx context.Context, app string) (*change, error) {
	var conditions []types.TransactWriteItem
	if d.app == "" {
		if err := d.checkTombstone(ctx); err != nil {
			return nil, err
		}
		conditions = []types.TransactWriteItem{d.newTombstoneCheck()}
	} else if _, err := d.admin.items.loadOrg(ctx, d.org); err != nil {
		return nil, err
	}
	now := d.admin.now()
	seen, err := d.admin.items.loadApp(ctx, d.org, app)
	switch {
	case seen.isDeleted():
		if d.app != "" {
			d.tombstone = seen.configItem
		}
		return nil, nil
	case errors.Is(err, ErrNotFound) && d.app == "":
		c, err := d.admin.decideOverride(ctx, audit.Event{Principal: d.by, Action: actionOverrideCleared, Target: d.org, Resource: app}, override{})
		if c != nil {
			c.writes = append(c.writes, conditions...)
		}
		return c, err
	case err != nil:
		return nil, err
	}
	last := appItem{configItem: seen.tombstone(now)}
	if d.app == "" {
		last.Expires = d.expirySeconds()
	} else {
		d.tombstone = last.configItem
	}
	event, err := d.admin.desk.newEvent(now, audit.Event{Principal: d.by, Action: actionAppDeleted, Target: d.org, Resource: app}, seen.asAppWithID(app).eventFields(), nil)
	if err != nil {
		return nil, err
	}
	write, err := d.newTombstoneWrite(appKey(d.org, app), last, store.Item{"cfg_version": store.Int(seen.Version)})
	ended := types.TransactWriteItem{Delete: &types.Delete{TableName: &d.admin.store.Control, Key: overrideKey(d.org, app).Attributes()}}
	return &change{append(conditions, write, ended), event}, err
}

// tombstone returns the item part that replaces c on its deletion at now: the next version, marked as deleted,
// without configuration and time to live. It stores nothing.
func (c configItem) tombstone(now time.Time) configItem {
	return configItem{Version: c.Version + 1, Created: c.Created, Updated: now.Unix(), Deleted: now.Unix()}
}

// newTombstoneWrite returns the transaction write of a tombstone, and sends nothing. Its condition is that the
// stored item still has the attributes of seen.
func (d *deletion) newTombstoneWrite(key store.Key, tombstone any, seen store.Item) (types.TransactWriteItem, error) {
	item, err := attributevalue.MarshalMap(tombstone)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	return d.admin.desk.newPutIfUnchanged(item, seen, slices.Sorted(maps.Keys(seen))...), nil
}

// newTombstoneCheck returns the transaction condition that the stored tombstone of the organisation is still
// the one of this deletion.
func (d *deletion) newTombstoneCheck() types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &d.admin.store.Control, Key: orgKey(d.org).Attributes(), ConditionExpression: aws.String("#v = :v"),
		ExpressionAttributeNames: map[string]string{"#v": "cfg_version"}, ExpressionAttributeValues: store.Item{":v": store.Int(d.tombstone.Version)},
	}}
}

// deleteApps deletes the organisation's apps one by one, each with its override and an audit event, and
// overrides without an app. It keeps tombstones of the apps. It ends at the first error.
func (d *deletion) deleteApps(ctx context.Context) error {
	apps := map[string]bool{}
	err := d.admin.store.Query(ctx, d.admin.store.Control, orgKey(d.org).PK, appPrefix, overPrefix+"~", func(item store.Item) error {
		for _, prefix := range []string{appPrefix, overPrefix} {
			if app, ok := strings.CutPrefix(store.KeyOf(item).SK, prefix); ok {
				apps[app] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		if err := d.admin.desk.commit(ctx, func() (*change, error) { return d.decideApp(ctx, app) }); err != nil {
			return err
		}
	}
	return nil
}

// checkComplete returns ErrConflict if the item is the tombstone of an unfinished deletion, else nil. what
// names the item in the error, and fix is the call that completes the deletion.
func (c configItem) checkComplete(what string, fix fault.Fix) error {
	if c.isDeleted() && c.Expires == 0 {
		return &problem.Fixable{Err: fmt.Errorf("%w: %s is being deleted: first complete that", ErrConflict, what), Fix: fix}
	}
	return nil
}
