package budget

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// putOverride forces an app to a label until an instant, with an audit event in the name of by, and drops the
// organisation's cached configurations. A past instant, or a label outside the ordering or without model or
// price now, is a *fault.ValidationError.
func (adm *administration) putOverride(ctx context.Context, by, org, app, label string, until time.Time) error {
	if err := validTarget(org, app); err != nil {
		return err
	}
	if !until.After(adm.now()) {
		return invalid("until", "%s is not in the future", until.Format(time.RFC3339))
	}
	t, err := adm.tenants.get(ctx, org, app)
	if err != nil {
		return err
	}
	now := adm.now()
	if !slices.Contains(t.policy().ordering, label) {
		return invalidLabelError(label)
	}
	if _, err := t.labelCost(label, prices.Tokens{}, now); err != nil {
		return err
	}
	return adm.setOverride(ctx, "Override", audit.Event{Principal: by, Action: actionOverrideSet, Target: org, Resource: app}, override{label: label, until: until})
}

// clearOverride removes an app's override, with an audit event in the name of by, and drops the organisation's
// cached configurations. Without an override it writes nothing and returns nil.
func (adm *administration) clearOverride(ctx context.Context, by, org, app string) error {
	if err := validTarget(org, app); err != nil {
		return err
	}
	return adm.setOverride(ctx, "ClearOverride", audit.Event{Principal: by, Action: actionOverrideCleared, Target: org, Resource: app}, override{})
}

// setOverride stores next as an app's override with its audit event e, or removes the stored one if next is
// zero. It writes no equal one, and drops the organisation's cached configurations. operation names the caller
// in errors.
func (adm *administration) setOverride(ctx context.Context, operation string, e audit.Event, next override) error {
	err := adm.desk.commit(ctx, func() (*change, error) { return adm.decideOverride(ctx, e, next) })
	adm.tenants.evict(e.Target)
	return adminError(operation, err)
}

// decideOverride reads an app's override and returns the change for commit to write: it stores next, or removes
// the stored override if next has no label. The change is nil if nothing changes; a new override of a deleted
// app is ErrNotFound.
func (adm *administration) decideOverride(ctx context.Context, e audit.Event, next override) (*change, error) {
	key := overrideKey(e.Target, e.Resource)
	keys := []store.Key{key}
	if next.label != "" {
		keys = append(keys, orgKey(e.Target), appKey(e.Target, e.Resource))
	}
	items, err := adm.store.BatchGet(ctx, adm.store.Control, keys...)
	if err != nil {
		return nil, err
	}
	seen := items[key]
	last, err := decodeOverride(seen)
	if err != nil {
		return nil, err
	}
	now := adm.now()
	next.until = time.UnixMilli(next.until.UnixMilli()) // in the stored precision
	event, err := adm.desk.newEvent(now, e, last.eventFields(now), next.eventFields(now))
	if err != nil || len(event.Changes) == 0 {
		return nil, err
	}
	if next.label != "" {
		living, err := adm.newLivingChecks(items, e.Target, e.Resource)
		if err != nil {
			return nil, err
		}
		item := key.Attributes()
		item[store.AttrLabel], item[attrUntil] = store.String(next.label), store.Int(next.until.UnixMilli())
		item[attrSince], item[store.AttrTTL] = store.Int(now.UnixMilli()), store.Int(next.until.Unix()+1)
		return &change{append(living, adm.desk.newPutIfUnchanged(item, seen, store.AttrLabel, attrUntil)), event}, nil
	}
	condition, names, values := unchangedCondition(seen, store.AttrLabel, attrUntil)
	return &change{[]types.TransactWriteItem{{Delete: &types.Delete{
		TableName: &adm.store.Control, Key: key.Attributes(),
		ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}}, event}, nil
}

// newLivingChecks returns two transaction conditions: neither the organisation nor the app is deleted. If
// items, as just read, show that one is, it returns ErrNotFound. It reads and writes nothing.
func (adm *administration) newLivingChecks(items map[store.Key]store.Item, org, app string) ([]types.TransactWriteItem, error) {
	if _, err := decodeOrg(org, items[orgKey(org)]); err != nil {
		return nil, err
	}
	switch a, err := decodeApp(items[appKey(org, app)]); {
	case err != nil:
		return nil, err
	case a.isDeleted():
		return nil, appDeletedError(org, app)
	}
	var conditions []types.TransactWriteItem
	for _, key := range []store.Key{orgKey(org), appKey(org, app)} {
		conditions = append(conditions, types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &adm.store.Control, Key: key.Attributes(), ConditionExpression: aws.String("attribute_not_exists(#deleted)"),
			ExpressionAttributeNames: map[string]string{"#deleted": "deleted_at_epoch"},
		}})
	}
	return conditions, nil
}
