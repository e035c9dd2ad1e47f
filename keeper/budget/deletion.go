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

// Revoke ends the credentials of an app, or of an organisation and all its apps (its app is
// ""); (*credentials.Store).Delete does. It is called again if a deletion was interrupted, and
// must do nothing the second time.
type Revoke func(ctx context.Context, org, app string) error

// deletion deletes an organisation, or an app of it. A tombstone replaces the item. It keeps
// the version, and gets a time to live when the deletion is complete: until then nobody may put
// the organisation or app again.
type deletion struct {
	admin        *administration
	by, org, app string // app is empty for the whole organisation
	revoke       Revoke // nil leaves credentials alone
	keepDays     int

	tombstone configItem
}

// errOvertaken says that another call completed the deletion: nothing more of the organisation or
// app may be touched, because it may have been put again.
var errOvertaken = errors.New("budget: the deletion was overtaken")

// run puts the tombstone, after which nobody finds the organisation or app, and then does the
// rest. Each step does nothing the second time.
func (d *deletion) run(ctx context.Context, operation string) error {
	settings, err := d.admin.settings.read(ctx)
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
	if err == nil && d.tombstone.Expires == 0 { // it was not complete before
		err = d.finish(ctx)
	}
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return adminError(operation, err)
}

// finish deletes an organisation's apps, ends credentials, and gives the tombstone its time to live.
func (d *deletion) finish(ctx context.Context) error {
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
			TableName: &d.admin.store.Control, Key: d.key().Attributes(), UpdateExpression: aws.String("SET #ttl = :ttl"),
			ConditionExpression:       aws.String("#v = :v"),
			ExpressionAttributeNames:  map[string]string{"#ttl": store.AttrTTL, "#v": "cfg_version"},
			ExpressionAttributeValues: store.Item{":ttl": store.Int(d.expires()), ":v": store.Int(d.tombstone.Version)},
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return errOvertaken
	}
	return err
}

func (d *deletion) key() store.Key {
	if d.app == "" {
		return orgKey(d.org)
	}
	return appKey(d.org, d.app)
}

// expires is when DynamoDB may remove a tombstone, in unix seconds: with what was counted.
func (d *deletion) expires() int64 { return d.admin.now().AddDate(0, 0, d.keepDays+2).Unix() }

// checkTombstone returns errOvertaken if the tombstone was replaced.
func (d *deletion) checkTombstone(ctx context.Context) error {
	item, err := d.admin.store.Get(ctx, d.admin.store.Control, d.key())
	var read store.Decoder
	if err == nil && read.Int(item, "cfg_version") != d.tombstone.Version {
		err = errOvertaken
	}
	return err
}

// decideOrg is the change that deletes the organisation; nil if it is deleted.
func (d *deletion) decideOrg(ctx context.Context, _ string) (*change, error) {
	now := d.admin.now()
	seen, err := d.admin.items.loadOrg(ctx, d.org)
	if seen.deleted() {
		d.tombstone = seen.configItem
		return nil, nil
	}
	if err != nil && !isEnforced(err) {
		return nil, err
	}
	last := orgItem{
		configItem: seen.buried(now), AppsVersion: seen.AppsVersion, Labels: seen.Labels, Zone: seen.Zone, Scope: seen.Scope, Shards: seen.Shards,
	}
	d.tombstone = last.configItem
	event, err := d.admin.desk.event(now, audit.Event{Principal: d.by, Action: actionOrgDeleted, Target: d.org}, seen.org(d.org).fields(), nil)
	if err != nil {
		return nil, err
	}
	write, err := d.bury(orgKey(d.org), last, store.Item{"cfg_version": store.Int(seen.Version), "apps_version": store.Int(seen.AppsVersion)})
	return &change{[]types.TransactWriteItem{write}, event}, err
}

// decideApp is decideOrg for an app: that of the deletion, or one of its organisation. The app's
// override ends with it, also that of an app without an item.
func (d *deletion) decideApp(ctx context.Context, app string) (*change, error) {
	var conditions []types.TransactWriteItem
	if d.app == "" {
		if err := d.checkTombstone(ctx); err != nil {
			return nil, err
		}
		conditions = []types.TransactWriteItem{d.isBuried()}
	} else if _, err := d.admin.items.loadOrg(ctx, d.org); err != nil {
		return nil, err
	}
	now := d.admin.now()
	seen, err := d.admin.items.loadApp(ctx, d.org, app)
	switch {
	case seen.deleted():
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
	last := appItem{configItem: seen.buried(now)}
	if d.app == "" {
		last.Expires = d.expires()
	} else {
		d.tombstone = last.configItem
	}
	event, err := d.admin.desk.event(now, audit.Event{Principal: d.by, Action: actionAppDeleted, Target: d.org, Resource: app}, seen.app(app).fields(), nil)
	if err != nil {
		return nil, err
	}
	write, err := d.bury(appKey(d.org, app), last, store.Item{"cfg_version": store.Int(seen.Version)})
	ended := types.TransactWriteItem{Delete: &types.Delete{TableName: &d.admin.store.Control, Key: overrideKey(d.org, app).Attributes()}}
	return &change{append(conditions, write, ended), event}, err
}

// buried is the tombstone of a configuration.
func (c configItem) buried(now time.Time) configItem {
	return configItem{Version: c.Version + 1, Created: c.Created, Updated: now.Unix(), Deleted: now.Unix()}
}

// bury is the write of a tombstone in the place of an item that is as it was read.
func (d *deletion) bury(key store.Key, tombstone any, seen store.Item) (types.TransactWriteItem, error) {
	item, err := attributevalue.MarshalMap(tombstone)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	return d.admin.desk.putAsSeen(item, seen, slices.Sorted(maps.Keys(seen))...), nil
}

// isBuried is a condition in a transaction: the organisation's tombstone is that of this deletion.
func (d *deletion) isBuried() types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: &d.admin.store.Control, Key: orgKey(d.org).Attributes(), ConditionExpression: aws.String("#v = :v"),
		ExpressionAttributeNames: map[string]string{"#v": "cfg_version"}, ExpressionAttributeValues: store.Item{":v": store.Int(d.tombstone.Version)},
	}}
}

// deleteApps deletes the apps of an organisation, and overrides of apps without an item.
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

// checkComplete returns ErrConflict for a tombstone whose deletion is not complete.
func (c configItem) checkComplete(what string, fix fault.Fix) error {
	if c.deleted() && c.Expires == 0 {
		return &problem.Fixable{Err: fmt.Errorf("%w: %s is being deleted: first complete that", ErrConflict, what), Fix: fix}
	}
	return nil
}
