package dynalimit

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// SystemOptions is what system configuration holds besides limits.
type SystemOptions struct {
	// OnUnavailable is what Acquire does when DynamoDB does not answer, unless
	// the call says otherwise. Empty means none is stored: Block.
	OnUnavailable UnavailablePolicy
}

// SetSystemLimits replaces the limits of every entity and resource that has
// none of its own. With nil options the stored ones are kept; else they are
// replaced too. Limits are in force in this process at once, in others within
// their ConfigTTL. It fails with a *ValidationError before anything is written.
func (r *Repository) SetSystemLimits(ctx context.Context, limits []Limit, opts *SystemOptions) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if opts != nil {
		switch opts.OnUnavailable {
		case "", Block, Allow, Local:
		default:
			return invalid("options.OnUnavailable", "is %q; give %q, %q, %q or nothing", opts.OnUnavailable, Block, Allow, Local)
		}
	}
	return r.setLimits(ctx, schema.ConfigOwner{}, limits, opts)
}

// GetSystemLimits returns the system's limits, sorted by name and none if there
// are none, and its options.
func (r *Repository) GetSystemLimits(ctx context.Context) ([]Limit, SystemOptions, error) {
	if err := r.usable(ctx); err != nil {
		return nil, SystemOptions{}, err
	}
	limits, item, err := r.getLimits(ctx, LevelSystem, schema.ConfigOwner{})
	return limits, SystemOptions{OnUnavailable: storedPolicy(item)}, err
}

// DeleteSystemLimits removes the system's limits and options. Removing what is
// not there is no error.
func (r *Repository) DeleteSystemLimits(ctx context.Context) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	return r.deleteLimits(ctx, schema.ConfigOwner{})
}

// SetResourceLimits replaces the limits of every entity on a resource, for those
// without limits of their own. See SetSystemLimits.
func (r *Repository) SetResourceLimits(ctx context.Context, resource string, limits []Limit) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkResource(resource); err != nil {
		return err
	}
	return r.setLimits(ctx, schema.ConfigOwner{Resource: resource}, limits, nil)
}

// GetResourceLimits returns the limits of a resource, sorted by name; none if
// there are none.
func (r *Repository) GetResourceLimits(ctx context.Context, resource string) ([]Limit, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	if err := checkResource(resource); err != nil {
		return nil, err
	}
	limits, _, err := r.getLimits(ctx, LevelResource, schema.ConfigOwner{Resource: resource})
	return limits, err
}

// DeleteResourceLimits removes the limits of a resource. Removing what is not
// there is no error.
func (r *Repository) DeleteResourceLimits(ctx context.Context, resource string) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	if err := checkResource(resource); err != nil {
		return err
	}
	return r.deleteLimits(ctx, schema.ConfigOwner{Resource: resource})
}

// SetEntityLimits replaces the limits of an entity on a resource; the resource
// "" is the entity's default, for every resource it has no limits for. The
// entity needs no record. See SetSystemLimits.
func (r *Repository) SetEntityLimits(ctx context.Context, entity, resource string, limits []Limit) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	owner, err := entityOwner(entity, resource)
	if err != nil {
		return err
	}
	return r.setLimits(ctx, owner, limits, nil)
}

// GetEntityLimits returns the limits of an entity on a resource ("": its
// default), sorted by name; none if it has none of its own there.
func (r *Repository) GetEntityLimits(ctx context.Context, entity, resource string) ([]Limit, error) {
	if err := r.usable(ctx); err != nil {
		return nil, err
	}
	owner, err := entityOwner(entity, resource)
	if err != nil {
		return nil, err
	}
	level := LevelEntity
	if owner.Resource == schema.DefaultResource {
		level = LevelEntityDefault
	}
	limits, _, err := r.getLimits(ctx, level, owner)
	return limits, err
}

// DeleteEntityLimits removes the limits of an entity on a resource ("": its
// default). Removing what is not there is no error.
func (r *Repository) DeleteEntityLimits(ctx context.Context, entity, resource string) error {
	if err := r.usable(ctx); err != nil {
		return err
	}
	owner, err := entityOwner(entity, resource)
	if err != nil {
		return err
	}
	return r.deleteLimits(ctx, owner)
}

// EntitiesWithLimits lists the entities that have limits of their own for a
// resource ("": a default), in the order of their ids. An index is read, which
// may lag behind a change by a moment.
func (r *Repository) EntitiesWithLimits(ctx context.Context, resource string) iter.Seq2[string, error] {
	if err := r.usable(ctx); err != nil {
		return problem.List[string](err)
	}
	return func(yield func(string, error) bool) {
		if resource != "" {
			if err := checkResource(resource); err != nil {
				yield("", err)
				return
			}
		}
		q := query{
			op: "list entities with limits", index: schema.IndexEntityConfigs,
			hash: schema.GSI3PK, value: r.keys.EntityConfigs(resource),
		}
		for page, err := range r.pages(ctx, q) {
			if err != nil {
				yield("", err)
				return
			}
			if !yieldAll(configuredEntities(page.Items), yield) {
				return
			}
		}
	}
}

func configuredEntities(items []schema.Item) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = schema.ConfiguredEntity(item)
	}
	return ids
}

func entityOwner(entity, resource string) (schema.ConfigOwner, error) {
	if err := checkEntityID("entity", entity); err != nil {
		return schema.ConfigOwner{}, err
	}
	if resource != "" && resource != schema.DefaultResource {
		if err := checkResource(resource); err != nil {
			return schema.ConfigOwner{}, err
		}
	}
	return schema.ConfigOwner{Entity: entity, Resource: resource}.Normal(), nil
}

func (r *Repository) getLimits(ctx context.Context, level ConfigLevel, owner schema.ConfigOwner) ([]Limit, schema.Item, error) {
	item, err := r.getItem(ctx, "read limits", r.keys.Config(owner))
	if err != nil {
		return nil, nil, err
	}
	limits, err := storedLimits(level, item)
	return limits, item, err
}

// configLimits checks limits that are to be stored.
func configLimits(limits []Limit) ([]schema.ConfigLimit, error) {
	limits, err := normalizeLimits("limits", limits)
	if err != nil {
		return nil, err
	}
	if err := checkStored("limits", limits); err != nil {
		return nil, err
	}
	out := make([]schema.ConfigLimit, len(limits))
	for i, l := range limits {
		out[i] = schema.ConfigLimit{
			Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, Amount: l.RefillAmount,
			PeriodSeconds: int64(l.RefillPeriod / time.Second),
		}
	}
	return out, nil
}

// evictConfig forgets the configurations that the owner's record is part of.
func (r *Repository) evictConfig(o schema.ConfigOwner) {
	o = o.Normal()
	all := o.Resource == "" || o.Resource == schema.DefaultResource && (o.Entity != "" || o.Plan != "")
	match := func(k configKey) bool {
		return (o.Entity == "" || k.entity == o.Entity) && (all || k.resource == o.Resource)
	}
	if o.Plan != "" {
		r.configs.evictPlan(o.Plan, match)
		return
	}
	r.configs.evict(match)
}

// setLimits replaces the owner's limits, and the options when given.
func (r *Repository) setLimits(ctx context.Context, owner schema.ConfigOwner, limits []Limit, opts *SystemOptions) error {
	stored, err := configLimits(limits)
	if err != nil {
		return err
	}
	if err := r.compatible(owner.Resource, "limits", limits); err != nil {
		return err
	}
	return r.changeConfig(ctx, "set limits", owner, func(old schema.Item) []types.TransactWriteItem {
		policy, blocked := schema.DecodePolicy(old), schema.Blocked(old)
		if opts != nil {
			policy = string(opts.OnUnavailable)
		}
		unchanged := schema.ConfigUnchanged(old)
		items := []types.TransactWriteItem{{Put: &types.Put{
			TableName: &r.table,
			Item: r.keys.EncodeConfig(owner, old, schema.ConfigItem{
				Limits: stored, Blocked: blocked, OnUnavailable: policy, Version: schema.ConfigVersion(old) + 1,
			}),
			ConditionExpression:       &unchanged.Condition,
			ExpressionAttributeNames:  unchanged.Names,
			ExpressionAttributeValues: unchanged.Values,
		}}}
		if owner.Entity != "" && old != nil {
			return items // counted when it was first set
		}
		return append(items, r.registerConfig(owner, false)...)
	})
}

// deleteLimits removes the owner's configuration.
func (r *Repository) deleteLimits(ctx context.Context, owner schema.ConfigOwner) error {
	existed := false
	err := r.changeConfig(ctx, "delete limits", owner, func(old schema.Item) []types.TransactWriteItem {
		if old == nil {
			return nil
		}
		existed = true
		unchanged := schema.ConfigUnchanged(old)
		return append([]types.TransactWriteItem{{Delete: &types.Delete{
			TableName:                 &r.table,
			Key:                       r.keys.Config(owner).Attributes(),
			ConditionExpression:       &unchanged.Condition,
			ExpressionAttributeNames:  unchanged.Names,
			ExpressionAttributeValues: unchanged.Values,
		}}}, r.registerConfig(owner, true)...)
	})
	if err != nil || !existed || owner.Entity == "" {
		return err
	}
	return r.uncount(ctx, owner)
}

// registerConfig is the part of a transaction that lists the owner's limits for
// tools, or removes them from the list.
func (r *Repository) registerConfig(owner schema.ConfigOwner, remove bool) []types.TransactWriteItem {
	key, st, ok := r.keys.Register(owner, remove)
	if !ok {
		return nil
	}
	return []types.TransactWriteItem{{Update: &types.Update{
		TableName:                 &r.table,
		Key:                       key.Attributes(),
		UpdateExpression:          &st.Update,
		ExpressionAttributeNames:  st.Names,
		ExpressionAttributeValues: st.Values,
	}}}
}

// uncount removes the count of a resource if no entity has limits for it any more. The
// SDK may retry: a count that came back meanwhile is kept.
func (r *Repository) uncount(ctx context.Context, owner schema.ConfigOwner) error {
	key, _, ok := r.keys.Register(owner, true)
	if !ok {
		return nil
	}
	st := schema.Uncount(owner.Resource)
	_, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: key.Attributes(),
		UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
	})
	if judge(err) == refused {
		return nil
	}
	return r.translate("delete limits", err)
}

// adminTries bounds how often a change is tried again because another change was made
// meanwhile.
const adminTries = 8

// adminBackoff is the wait between the tries of administrative work.
var adminBackoff = ddb.Backoff{First: 25 * time.Millisecond, Most: time.Second}

// changeConfig reads the owner's item and writes what change makes of it, on the
// condition that nobody wrote the item meanwhile; if somebody did, it reads again. It
// writes nothing if change returns nothing. It evicts the cache before and after,
// because a read that began before the write ended may have seen the old item.
//
// Every change is a transaction, because the SDK gives a transaction a client token that
// stays the same when it retries: a change whose answer was lost is not made twice, and
// is not mistaken for somebody else's.
func (r *Repository) changeConfig(ctx context.Context, op string, owner schema.ConfigOwner, change func(old schema.Item) []types.TransactWriteItem) error {
	if err := r.checkVersion(ctx); err != nil {
		return err
	}
	r.evictConfig(owner)
	defer r.evictConfig(owner)
	for attempt := 1; ; attempt++ {
		old, err := r.getItem(ctx, op, r.keys.Config(owner))
		if err != nil {
			return err
		}
		items := change(old)
		if len(items) == 0 {
			return nil
		}
		v, err := r.transact(ctx, items)
		switch {
		case v == landed:
			return nil
		case v != refused && v != conflicted && v != throttled && v != unsent:
			return r.translate(op, err)
		case attempt == adminTries:
			return r.unavailable(op, fmt.Errorf("others were in the way in each of %d tries: %w", attempt, err))
		}
		if !adminBackoff.Pause(ctx, attempt) {
			return r.unavailable(op, fmt.Errorf("%w; the last try: %w", ctx.Err(), err))
		}
	}
}

func (r *Repository) transact(ctx context.Context, items []types.TransactWriteItem) (verdict, error) {
	_, err := r.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
	return judge(err), err
}
