package admin

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// The actions of configuration, as events name them.
const (
	LimitsSet     = "limits_set"
	LimitsDeleted = "limits_deleted"
	BlockSet      = "block_set"
	BlockLifted   = "block_lifted"
)

// TargetOf is the target of events about an owner's configuration.
func TargetOf(o schema.ConfigOwner) string {
	switch {
	case o.Entity != "":
		return o.Entity
	case o.Plan != "":
		return trail.PlanTarget(o.Plan)
	case o.Resource != "":
		return trail.ResourceTarget(o.Resource)
	}
	return trail.System
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
func configFields(c *schema.ConfigItem) trail.Fields {
	if c == nil {
		return nil
	}
	fields := trail.Fields{}
	limits := make([]limitFields, len(c.Limits))
	for i, l := range c.Limits {
		limits[i] = limitFields{Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, Amount: l.Amount, Period: l.PeriodSeconds}
	}
	if len(limits) > 0 {
		fields["limits"] = limits
	}
	if c.Unlimited {
		fields["unlimited"] = true
	}
	if c.Blocked {
		fields["blocked"] = true
	}
	if c.OnUnavailable != "" {
		fields["on_unavailable"] = c.OnUnavailable
	}
	if c.ManagedBy != "" {
		fields["managed_by"] = c.ManagedBy
	}
	return fields
}

// Edit makes an owner's next configuration from the stored one, nil for none. It returns
// nil to remove it. An error ends the change.
type Edit func(stored *schema.ConfigItem) (*schema.ConfigItem, error)

// malformed is a stored configuration that cannot be understood.
type malformed struct{ error }

func (m malformed) Unwrap() error { return m.error }

// Malformed is why a stored configuration cannot be understood; false for another error.
func Malformed(err error) (reason error, ok bool) {
	m, ok := errors.AsType[malformed](err)
	return m.error, ok
}

// Get reads an owner's configuration; nil for none.
func (a Configs) Get(ctx context.Context, op string, owner schema.ConfigOwner) (*schema.ConfigItem, error) {
	item, err := a.Table.Get(ctx, op, a.Keys.Config(owner))
	if err != nil {
		return nil, err
	}
	return decodeConfig(item)
}

// decodeConfig is what an item of configuration says; nil for no item.
func decodeConfig(item schema.Item) (*schema.ConfigItem, error) {
	if item == nil {
		return nil, nil
	}
	c, err := schema.DecodeConfig(item)
	if err != nil {
		return nil, malformed{err}
	}
	return &c, nil
}

// Change writes what edit makes of an owner's configuration, on the condition that
// nobody wrote it meanwhile; if somebody did, edit is asked again. It returns what is
// stored then; nil for nothing. Nothing is written if that is what was stored before.
func (a Configs) Change(ctx context.Context, by, op string, owner schema.ConfigOwner, edit Edit) (*schema.ConfigItem, error) {
	c := configChange{owner: owner.Normal(), edit: edit}
	err := a.Table.Change(ctx, op, func() (table.Proposal, error) {
		item, err := a.Table.Get(ctx, op, a.Keys.Config(c.owner))
		if err != nil {
			return table.Proposal{}, err
		}
		if err := c.plan(item, a.Now()); err != nil || !c.changes {
			return table.Proposal{}, err
		}
		p := table.Proposal{}
		if err := a.addConfig(&p, by, &c); err != nil {
			return p, err
		}
		p.Writes = append(p.Writes, a.registrations([]*configChange{&c})...)
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	a.tidy(ctx, op, []*configChange{&c})
	return c.next, nil
}

// configChange is a change of one configuration under way.
type configChange struct {
	owner schema.ConfigOwner
	edit  Edit
	// item and stored are what was read, next what is to be stored; nil for nothing.
	item         schema.Item
	stored, next *schema.ConfigItem
	changes      bool
}

// ofResource reports whether a configuration is a resource's for every entity.
func ofResource(o schema.ConfigOwner) bool { return o.Entity == "" && o.Plan == "" && o.Resource != "" }

// plan asks what is to become of what was read.
func (c *configChange) plan(item schema.Item, now time.Time) error {
	c.item, c.stored = item, nil
	if item != nil {
		stored := schema.ReadableConfig(item)
		c.stored = &stored
	}
	next, err := c.edit(c.stored)
	if err != nil {
		c.changes = false
		return err
	}
	if unknown := schema.UnknownConfig(item); unknown != nil && (next == nil || !next.Unread) {
		c.changes = false
		return unknown // what is not known is neither replaced nor removed
	}
	c.next = nil
	if next != nil {
		n := *next
		n.Version = schema.ConfigVersion(item)
		if c.changes = c.stored == nil || !n.Same(*c.stored); c.changes {
			n.Version++
		}
		if item == nil {
			n.Version = firstVersion(now)
		}
		c.next = &n
		return nil
	}
	c.changes = c.stored != nil
	return nil
}

// firstVersion is the version of a configuration that is made now, in milliseconds since
// 1970: above those of what was removed before, which counted from an earlier instant, so
// that a change that was planned on what was removed does not land on what is new.
func firstVersion(now time.Time) int64 { return max(1, now.UnixMilli()) }

// counts is by how much the change alters the number of entities with limits.
func (c *configChange) counts() int64 {
	switch {
	case !c.changes || c.owner.Entity == "":
		return 0
	case c.stored == nil:
		return 1
	case c.next == nil:
		return -1
	}
	return 0
}

// action is what the change does, as its event names it.
func (c *configChange) action() string {
	var was, is schema.ConfigItem
	if c.stored != nil {
		was = *c.stored
	}
	if c.next != nil {
		is = *c.next
	}
	lifted := was.Blocked
	was.Blocked, was.ManagedBy = is.Blocked, is.ManagedBy
	if is.Blocked != lifted && was.Same(is) { // nothing else changes
		if lifted {
			return BlockLifted
		}
		return BlockSet
	}
	if c.next == nil {
		return LimitsDeleted
	}
	return LimitsSet
}

// addConfig adds a change, with its event, to a proposal.
func (a Configs) addConfig(p *table.Proposal, by string, c *configChange) error {
	d := Deed{
		By: by, Action: c.action(), Target: TargetOf(c.owner), Resource: c.owner.Resource,
		Before: configFields(c.stored), After: configFields(c.next), Was: c.item,
	}
	unchanged := schema.ConfigUnchanged(c.item)
	write := a.Table.Delete(a.Keys.Config(c.owner), unchanged)
	if c.next != nil {
		d.Is = c.next.Item(a.Keys, c.owner, c.item)
		write = a.Table.Put(d.Is, unchanged)
	}
	event, proof, err := a.Record(d)
	if err != nil {
		return err
	}
	p.Writes, p.Proof = append(p.Writes, write, event), proof
	return nil
}

// registrations are the parts of a transaction that count entities with limits, and list
// resources with limits, for tools: one for each item of those lists.
func (a Configs) registrations(changes []*configChange) []types.TransactWriteItem {
	counts := map[string]int64{}
	for _, c := range changes {
		if n := c.counts(); n != 0 {
			counts[c.owner.Resource] += n
		}
	}
	var writes []types.TransactWriteItem
	if st, ok := schema.CountConfigs(counts); ok {
		writes = append(writes, a.Table.Update(a.Keys.EntityResources(), st))
	}
	return append(writes, a.listings(changes)...)
}

// listings is the part of a transaction that changes the list of resources with limits,
// if one does. One update cannot both add to a set and remove from it: changes of one
// transaction do either.
func (a Configs) listings(changes []*configChange) []types.TransactWriteItem {
	var names []string
	remove := false
	for _, c := range changes {
		if c.changes && ofResource(c.owner) {
			names, remove = append(names, c.owner.Resource), c.next == nil
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []types.TransactWriteItem{a.Table.Update(a.Keys.Resources(), schema.ListResources(names, remove))}
}

// tidy removes the counts of resources that no entity has limits for any more. It may fail
// unseen: the change is made, and a count of 0 lists nothing.
func (a Configs) tidy(ctx context.Context, op string, changes []*configChange) {
	done := map[string]bool{}
	for _, c := range changes {
		if resource := c.owner.Resource; c.counts() < 0 && !done[resource] && schema.Countable(resource) {
			done[resource] = true
			_ = a.Table.UpdateIf(ctx, op, a.Keys.EntityResources(), schema.Uncount(resource))
		}
	}
}
