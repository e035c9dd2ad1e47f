package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// configItem is the common part of organisations and apps in the control table. Their
// credentials are other attributes of the same items; a PUT does not change those.
type configItem struct {
	Ordering []string          `dynamodbav:"model_ordering,omitempty"`
	Quotas   map[string]int64  `dynamodbav:"quotas,omitempty"`
	Models   map[string]string `dynamodbav:"models,omitempty"`
	Past     []pastModel       `dynamodbav:"past_models,omitempty"`
	Tight    int               `dynamodbav:"tight_mode_threshold_pct,omitempty"`
	Normal   int64             `dynamodbav:"refresh_interval_normal_secs,omitempty"`
	TightFor int64             `dynamodbav:"refresh_interval_tight_secs,omitempty"`
	Version  int64             `dynamodbav:"cfg_version"`
	Created  int64             `dynamodbav:"created_at_epoch"`
	Updated  int64             `dynamodbav:"updated_at_epoch"`
	Writer   string            `dynamodbav:"put_id,omitempty"`
	Deleted  int64             `dynamodbav:"deleted_at_epoch,omitempty"` // 0 unless it is a tombstone
	Expires  int64             `dynamodbav:"ttl_epoch,omitempty"`        // 0 unless its deletion is complete
}

type orgItem struct {
	configItem
	Name        string   `dynamodbav:"org_name,omitempty"`
	Zone        string   `dynamodbav:"timezone"`
	Scope       Scope    `dynamodbav:"quota_scope"`
	Sticky      bool     `dynamodbav:"sticky_fallback_enabled"`
	Shards      int      `dynamodbav:"agg_shard_count"`
	Labels      []string `dynamodbav:"labels,stringset,omitempty"` // all labels that any ordering ever used
	AppsVersion int64    `dynamodbav:"apps_version"`               // increases with every PUT of an app
}

type appItem struct {
	configItem
	Name        string `dynamodbav:"app_name,omitempty"`
	unsupported string // why the keeper refuses it, see unsupportedPart; "" if it does not
}

// newConfigItem returns the part of an item that organisations and apps share: p's configuration, times and
// version. writer is the id of the PUT, by which its retry recognises its own earlier try. It stores nothing.
func newConfigItem(p App, created, now time.Time, version int64, writer string) configItem {
	return configItem{
		Ordering: p.Ordering, Quotas: p.Quotas, Models: p.Models, Tight: p.TightPercent,
		Normal: p.RefreshNormalSecs, TightFor: p.RefreshTightSecs,
		Version: version, Created: created.Unix(), Updated: now.Unix(), Writer: writer,
	}
}

// asApp returns the configuration, version and times of the item as an App without id and name. Organisations
// use it too.
func (c configItem) asApp() App {
	return App{
		Ordering: c.Ordering, Quotas: c.Quotas, Models: c.Models, TightPercent: c.Tight,
		RefreshNormalSecs: c.Normal, RefreshTightSecs: c.TightFor,
		Version: c.Version, CreatedAt: time.Unix(c.Created, 0).UTC(), UpdatedAt: time.Unix(c.Updated, 0).UTC(),
	}
}

// newOrgItem returns the item of an organisation's configuration, still without key, labels, apps' version and
// past models. created is its first PUT, now this one, and writer the PUT's id. It stores nothing.
func newOrgItem(o Org, created, now time.Time, version int64, writer string) orgItem {
	return orgItem{
		configItem: newConfigItem(App{
			Ordering: o.Ordering, Quotas: o.Quotas, Models: o.Models,
			TightPercent: o.TightPercent, RefreshNormalSecs: o.RefreshNormalSecs, RefreshTightSecs: o.RefreshTightSecs,
		}, created, now, version, writer),
		Name: o.Name, Zone: o.Timezone, Scope: o.Scope, Sticky: o.Sticky, Shards: o.Shards,
	}
}

// asOrg returns the item as an organisation with the given id. It is the inverse of newOrgItem.
func (i orgItem) asOrg(id string) Org {
	f := i.asApp()
	return Org{
		ID: id, Name: i.Name, Timezone: i.Zone, Scope: i.Scope, Ordering: f.Ordering, Quotas: f.Quotas,
		Models: f.Models, TightPercent: f.TightPercent, Shards: i.Shards, Sticky: i.Sticky, NoSticky: !i.Sticky,
		RefreshNormalSecs: f.RefreshNormalSecs, RefreshTightSecs: f.RefreshTightSecs,
		Version: f.Version, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
	}
}

// asAppWithID returns the item as the app with the given id.
func (i appItem) asAppWithID(id string) App {
	a := i.asApp()
	a.ID, a.Name = id, i.Name
	return a
}

// newUpdateExpression returns a DynamoDB update expression, its names and its values. The update sets all
// attributes of item, a struct, and removes those of optional that item lacks. Others stay as they are stored.
func newUpdateExpression(item any, optional ...string) (expression string, names map[string]string, values store.Item, err error) {
	m, err := attributevalue.MarshalMap(item)
	if err != nil {
		return "", nil, nil, err
	}
	names, values = map[string]string{}, store.Item{}
	set, remove := "", ""
	i := 0
	for name, v := range m {
		k := string(rune('a'+i%26)) + string(rune('a'+i/26))
		i++
		names["#"+k], values[":"+k] = name, v
		set += ", #" + k + " = :" + k
	}
	for j, name := range optional {
		if _, ok := m[name]; !ok {
			k := "r" + string(rune('A'+j))
			names["#"+k] = name
			remove += ", #" + k
		}
	}
	expression = "SET " + set[2:]
	if remove != "" {
		expression += " REMOVE " + remove[2:]
	}
	return expression, names, values, nil
}

var optionalConfig = []string{
	"model_ordering", "quotas", "models", "past_models", "tight_mode_threshold_pct",
	"refresh_interval_normal_secs", "refresh_interval_tight_secs", "org_name", "app_name", "deleted_at_epoch", store.AttrTTL,
	attrCalendar, attrEnforcement, attrLimits,
}

// items reads and writes organisations and apps in the control table.
type items struct{ store *store.Store }

// loadOrg reads an organisation's item without a cache. A missing one is ErrNotFound; a deleted one is
// ErrNotFound together with its tombstone. One that this version cannot enforce comes with an *enforcedError.
func (i items) loadOrg(ctx context.Context, org string) (orgItem, error) {
	item, err := i.store.Get(ctx, i.store.Control, orgKey(org))
	if err != nil {
		return orgItem{}, err
	}
	return decodeOrg(org, item)
}

// decodeOrg decodes the item of the organisation with id org. A nil item is ErrNotFound; a deleted one is
// ErrNotFound together with its tombstone. One that this version cannot enforce comes with an *enforcedError.
func decodeOrg(org string, item store.Item) (orgItem, error) {
	var o orgItem
	deleted := item["deleted_at_epoch"] != nil
	if item == nil || item["timezone"] == nil && !deleted {
		return o, &problem.Fixable{Err: notFound("organisation %s; create it", org), Fix: fault.PutOrg}
	}
	if err := attributevalue.UnmarshalMap(item, &o); err != nil {
		return o, fmt.Errorf("%w: organisation: %w", store.ErrMalformed, err)
	}
	switch reason := unsupportedPart(item); {
	case deleted && reason == "":
		return o, &problem.Fixable{Err: notFound("organisation %s was deleted; create it again", org), Fix: fault.PutOrg}
	case reason != "":
		return o, &enforcedError{"organisation " + org, reason, deleted}
	}
	return o, nil
}

// isDeleted reports whether the item is the tombstone of a deleted organisation or app.
func (c configItem) isDeleted() bool { return c.Deleted != 0 }

// decodeApp decodes an app's item, also a tombstone; a nil item gives the zero appItem. It sets unsupported to
// a text about the part that this version cannot enforce, or "". Its error matches store.ErrMalformed.
func decodeApp(item store.Item) (appItem, error) {
	var a appItem
	if err := attributevalue.UnmarshalMap(item, &a); err != nil {
		return a, fmt.Errorf("%w: app: %w", store.ErrMalformed, err)
	}
	a.unsupported = unsupportedPart(item)
	return a, nil
}

// loadApps reads all apps of an organisation and returns them by id, also tombstones of deleted ones. It does
// not check that the organisation exists. A malformed app is an error.
func (i items) loadApps(ctx context.Context, org string) (map[string]appItem, error) {
	apps := map[string]appItem{}
	err := i.store.Query(ctx, i.store.Control, orgKey(org).PK, appPrefix, appPrefix+"~", func(item store.Item) error {
		a, err := decodeApp(item)
		apps[store.KeyOf(item).SK[len(appPrefix):]] = a
		return err
	})
	return apps, err
}

// newOrgWrite returns the transaction write that stores item as the organisation id; it sends nothing. It
// requires that neither the organisation nor its apps changed since seen was read; a zero seen requires that
// none is stored.
func (i items) newOrgWrite(id string, item, seen orgItem) (types.TransactWriteItem, error) {
	expression, names, values, err := newUpdateExpression(item, optionalConfig...)
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	cond := "attribute_not_exists(#v)"
	names["#v"] = "cfg_version"
	if seen.Version != 0 {
		cond = "#v = :seen AND #apps = :apps"
		names["#apps"] = "apps_version"
		values[":seen"], values[":apps"] = store.Int(seen.Version), store.Int(seen.AppsVersion)
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &i.store.Control, Key: orgKey(id).Attributes(), UpdateExpression: &expression,
		ConditionExpression: &cond, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}, nil
}

// newAppWrites returns two transaction writes: one stores item as the app, one adds o's labels to the
// organisation and counts an app change there. They require the versions in seen and o. It sends nothing.
func (i items) newAppWrites(org, app string, item, seen appItem, o orgItem) ([]types.TransactWriteItem, error) {
	expression, names, values, err := newUpdateExpression(item, optionalConfig...)
	if err != nil {
		return nil, err
	}
	names["#v"] = "cfg_version"
	cond := "attribute_not_exists(#v) OR #v = :seen"
	values[":seen"] = store.Int(seen.Version)
	orgUpdate := "ADD #apps :one, #labels :labels"
	orgValues := store.Item{
		":one": store.Int(1), ":seen": store.Int(o.Version), ":labels": &types.AttributeValueMemberSS{Value: o.Labels},
	}
	return []types.TransactWriteItem{
		{Update: &types.Update{
			TableName: &i.store.Control, Key: orgKey(org).Attributes(), UpdateExpression: &orgUpdate,
			ConditionExpression: aws.String("#v = :seen"), // other apps may change concurrently
			ExpressionAttributeNames: map[string]string{
				"#v": "cfg_version", "#apps": "apps_version", "#labels": "labels",
			},
			ExpressionAttributeValues: orgValues,
		}},
		{Update: &types.Update{
			TableName: &i.store.Control, Key: appKey(org, app).Attributes(), UpdateExpression: &expression,
			ConditionExpression: &cond, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}},
	}, nil
}

// mergeLabels returns a new sorted slice with every label of labels and more once. It leaves both unchanged.
func mergeLabels(labels []string, more ...string) []string {
	all := slices.Concat(labels, more)
	slices.Sort(all)
	return slices.Compact(all)
}

// appDeletedError returns an error for a call for an app whose tombstone is stored. It matches ErrNotFound and
// says how to correct that.
func appDeletedError(org, app string) error {
	return &problem.Fixable{Err: notFound("app %q of organisation %s was deleted; create it again", app, org), Fix: fault.PutApp}
}

// isDeletedOrg reports whether loadOrg or decodeOrg returned the tombstone of an organisation, by their results
// o and err.
func isDeletedOrg(o orgItem, err error) bool { return errors.Is(err, ErrNotFound) && o.Deleted != 0 }

// loadApp reads an app's own item without a cache. A missing app is ErrNotFound; a deleted one is ErrNotFound
// together with its tombstone. It does not read the organisation.
func (i items) loadApp(ctx context.Context, org, app string) (appItem, error) {
	item, err := i.store.Get(ctx, i.store.Control, appKey(org, app))
	if err != nil {
		return appItem{}, err
	}
	return decodeLiveApp(org, app, item)
}

// decodeLiveApp decodes the item of an app. A nil item is ErrNotFound; a deleted app is ErrNotFound together
// with its tombstone.
func decodeLiveApp(org, app string, item store.Item) (appItem, error) {
	if item == nil {
		return appItem{}, notFound("app %q of organisation %s", app, org)
	}
	a, err := decodeApp(item)
	if err == nil && a.isDeleted() {
		err = appDeletedError(org, app)
	}
	return a, err
}

// override is a label that an administrator has forced until an instant.
type override struct {
	label string
	until time.Time
	since time.Time // zero if an older version stored the override
}

const (
	attrUntil = "until_epoch_ms"
	attrSince = "since_epoch_ms"
)

// decodeOverride decodes an app's override. A nil item gives one without a label that ended in 1970. since is
// zero if the item lacks the time at which it was set.
func decodeOverride(item store.Item) (override, error) {
	var d store.Decoder
	o := override{label: d.String(item, store.AttrLabel), until: time.UnixMilli(d.Int(item, attrUntil))}
	if ms := d.Int(item, attrSince); ms != 0 {
		o.since = time.UnixMilli(ms)
	}
	return o, d.Err
}

// eventFields returns label and end of the override as the fields of an audit event. It returns nil if the
// override has ended at now.
func (o override) eventFields(now time.Time) trail.Fields {
	if !now.Before(o.until) {
		return nil
	}
	return trail.Fields{"label": o.label, "until": o.until.UTC().Format(time.RFC3339Nano)}
}
