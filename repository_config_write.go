package dynalimit

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

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
		policy := schema.DecodePolicy(old)
		if opts != nil {
			policy = string(opts.OnUnavailable)
		}
		unchanged := schema.ConfigUnchanged(old)
		items := []types.TransactWriteItem{{Put: &types.Put{
			TableName: &r.table,
			Item: r.keys.EncodeConfig(owner, old, schema.ConfigItem{
				Limits: stored, OnUnavailable: policy, Version: schema.ConfigVersion(old) + 1,
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

// uncount drops the count of a resource that no entity has limits for any more.
// The SDK may retry: a count that came back in between is kept.
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

// adminTries bounds how often a change is made anew when another was in its way.
const adminTries = 8

// adminBackoff is the wait between the tries of administrative work.
var adminBackoff = ddb.Backoff{First: 25 * time.Millisecond, Most: time.Second}

// changeConfig reads the owner's item and writes what change makes of it, on
// the condition that nobody wrote it meanwhile: then it reads again. Nothing is
// written when change returns nothing. The cache is evicted before and after: a
// read begun before the write ends is not kept, whatever it saw.
//
// Every change is a transaction, for the SDK gives it a client token that stays
// the same when it retries: a change whose answer was lost is not made twice,
// and is not mistaken for somebody else's.
func (r *Repository) changeConfig(ctx context.Context, op string, owner schema.ConfigOwner, change func(old schema.Item) []types.TransactWriteItem) error {
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
