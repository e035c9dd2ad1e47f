package admin

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// The actions of configuration, as events name them.
const (
	LimitsSet     = "limits_set"
	LimitsDeleted = "limits_deleted"
)

// TargetOf is the target of events about an owner's configuration.
func TargetOf(o schema.ConfigOwner) string {
	switch {
	case o.Entity != "":
		return o.Entity
	case o.Plan != "":
		return audit.PlanTarget(o.Plan)
	case o.Resource != "":
		return audit.ResourceTarget(o.Resource)
	}
	return audit.System
}

// limitFields is a limit as events show it, in the words of the source.
type limitFields struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Burst    int64  `json:"burst"`
	Amount   int64  `json:"refill_amount"`
	Period   int64  `json:"refill_period_seconds"`
}

// configFields are the fields of a configuration; nil for none stored.
func configFields(c *schema.ConfigItem) audit.Fields {
	if c == nil {
		return nil
	}
	limits := make([]limitFields, len(c.Limits))
	for i, l := range c.Limits {
		limits[i] = limitFields{Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, Amount: l.Amount, Period: l.PeriodSeconds}
	}
	fields := audit.Fields{"limits": limits}
	if c.Unlimited {
		fields["unlimited"] = true
	}
	if c.Blocked {
		fields["blocked"] = true
	}
	if c.OnUnavailable != "" {
		fields["on_unavailable"] = c.OnUnavailable
	}
	return fields
}

// Edit makes an owner's next configuration from the stored one, nil for none. It returns
// nil to remove it, and the stored one to leave it as it is. An error ends the change.
type Edit func(stored *schema.ConfigItem) (*schema.ConfigItem, error)

// Config reads an owner's configuration; nil for none.
func (a *Admin) Config(ctx context.Context, op string, owner schema.ConfigOwner) (*schema.ConfigItem, schema.Item, error) {
	item, err := a.Table.Get(ctx, op, a.Keys.Config(owner))
	if err != nil || item == nil {
		return nil, nil, err
	}
	c, err := schema.DecodeConfig(item)
	return &c, item, err
}

// ChangeConfig writes what edit makes of an owner's configuration, on the condition that
// nobody wrote it meanwhile; if somebody did, edit is asked again.
func (a *Admin) ChangeConfig(ctx context.Context, by, op string, owner schema.ConfigOwner, edit Edit) error {
	owner = owner.Normal()
	removed := false
	err := a.Table.Change(ctx, op, func() (table.Proposal, error) {
		item, err := a.Table.Get(ctx, op, a.Keys.Config(owner))
		if err != nil {
			return table.Proposal{}, err
		}
		var stored *schema.ConfigItem
		if item != nil {
			stored = new(schema.ConfigItem)
			*stored = readable(item)
		}
		next, err := edit(stored)
		if err != nil || next == stored {
			return table.Proposal{}, err
		}
		removed = next == nil
		return a.proposeConfig(by, owner, item, stored, next)
	})
	if err != nil || !removed || owner.Entity == "" {
		return err
	}
	return a.uncount(ctx, op, owner)
}

// readable is a stored configuration as far as it can be understood: one that cannot is
// replaced or removed all the same.
func readable(item schema.Item) schema.ConfigItem {
	c, err := schema.DecodeConfig(item)
	if err != nil {
		return schema.ConfigItem{Version: schema.ConfigVersion(item)}
	}
	return c
}

// proposeConfig is the transaction that replaces a configuration, or removes it if next
// is nil.
func (a *Admin) proposeConfig(by string, owner schema.ConfigOwner, item schema.Item, stored, next *schema.ConfigItem) (table.Proposal, error) {
	unchanged := schema.ConfigUnchanged(item)
	d := Deed{By: by, Action: LimitsSet, Target: TargetOf(owner), Resource: owner.Resource, Before: configFields(stored), After: configFields(next)}
	var writes []types.TransactWriteItem
	if next == nil {
		d.Action = LimitsDeleted
		writes = append(writes, a.Table.Delete(a.Keys.Config(owner), unchanged))
	} else {
		c := *next
		c.Version = schema.ConfigVersion(item) + 1
		writes = append(writes, a.Table.Put(a.Keys.EncodeConfig(owner, item, c), unchanged))
	}
	if owner.Entity == "" || item == nil || next == nil { // an entity's is counted when it is first set
		writes = append(writes, a.register(owner, next == nil)...)
	}
	return a.propose(d, writes...)
}

// register is the part of a transaction that lists the owner's limits for tools, or
// removes them from the list.
func (a *Admin) register(owner schema.ConfigOwner, remove bool) []types.TransactWriteItem {
	key, st, ok := a.Keys.Register(owner, remove)
	if !ok {
		return nil
	}
	return []types.TransactWriteItem{a.Table.Update(key, st)}
}

// uncount removes the count of a resource if no entity has limits for it any more. A
// count that came back meanwhile is kept.
func (a *Admin) uncount(ctx context.Context, op string, owner schema.ConfigOwner) error {
	key, _, ok := a.Keys.Register(owner, true)
	if !ok {
		return nil
	}
	return a.Table.UpdateIf(ctx, op, key, schema.Uncount(owner.Resource))
}
