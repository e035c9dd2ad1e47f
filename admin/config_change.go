package admin

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// targetOf is the target of events about an owner's configuration.
func targetOf(o schema.ConfigOwner) string {
	switch {
	case o.Entity != "":
		return o.Entity
	case o.Plan != "":
		return audit.Plan(o.Plan)
	case o.Resource != "":
		return audit.Resource(o.Resource)
	}
	return audit.System
}

// configFields are the fields of a configuration; nil for none stored.
func configFields(c *schema.ConfigItem) trail.Fields {
	if c == nil {
		return nil
	}
	fields := trail.Fields{}
	limits := make([]trail.Limit, len(c.Limits))
	for i, l := range c.Limits {
		limits[i] = trail.Limit{Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, Amount: l.RefillAmount, Period: l.PeriodSeconds(), Window: l.Window, Zone: l.Zone, Unit: l.Unit, PerModel: l.PerModel, MaxDebt: l.MaxDebt, Shadow: l.Shadow}
	}
	if len(limits) > 0 {
		fields["limits"] = limits
	}
	if c.Extends {
		fields["extends"] = true
	}
	if len(c.Lifted) > 0 {
		fields["lifted"] = c.Lifted
	}
	if len(c.Raises) > 0 {
		fields["raises"] = raiseFields(c.Raises)
	}
	if c.Unlimited {
		fields["unlimited"] = true
	}
	for name, yes := range map[string]bool{"blocked": c.Blocked, "blocked_except": c.BlockedExcept, "admit": c.Admit, "counted": c.Counted} {
		if yes {
			fields[name] = true
		}
	}
	if c.OnUnavailable != "" {
		fields["on_unavailable"] = c.OnUnavailable
	}
	if len(c.Groups) > 0 {
		fields["groups"] = c.Groups
	}
	if c.ManagedBy != "" {
		fields["managed_by"] = c.ManagedBy
	}
	return fields
}

// edit makes an owner's next configuration from the stored one, nil for none. It returns
// nil to remove it. An error ends the change.
type edit func(stored *schema.ConfigItem) (*schema.ConfigItem, error)

// configChange is a change of one configuration under way.
type configChange struct {
	owner schema.ConfigOwner
	edit  edit
	// removes says that edit returns nil.
	removes bool
	// item and stored hold the current configuration, next the new one. Each is nil if there is none.
	item         schema.Item
	stored, next *schema.ConfigItem
	changes      bool
	// err is why it is not made, where many are.
	err error
}

// ofResource reports whether a configuration is a resource's for every entity.
func ofResource(o schema.ConfigOwner) bool { return o.Entity == "" && o.Plan == "" && o.Resource != "" }

// plan computes the new configuration.
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
		return unknown // an unknown configuration is neither replaced nor removed
	}
	next = c.dropEnded(next, now)
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

// dropEnded drops ended raises from the stored and from the next configuration. It returns the next
// one, nil for an empty one. An empty one of a resource stays: transactions list some resources or take
// some off the list, which was decided before.
func (c *configChange) dropEnded(next *schema.ConfigItem, now time.Time) *schema.ConfigItem {
	if c.stored != nil {
		stored := c.stored.WithoutEnded(now.Unix())
		c.stored = &stored
	}
	if next == nil {
		return nil
	}
	left := next.WithoutEnded(now.Unix())
	switch {
	case len(left.Raises) == len(next.Raises):
		return next
	case ofResource(c.owner):
		return &left
	}
	return left.OrNone()
}

// firstVersion is the version of a new configuration, in milliseconds since
// 1970. It is above those of removed ones, which counted from an earlier instant, so
// that a change planned on a removed one does not apply to a new one.
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

// action is the name of the change in its event.
func (c *configChange) action() string {
	var was, is schema.ConfigItem
	if c.stored != nil {
		was = *c.stored
	}
	if c.next != nil {
		is = *c.next
	}
	before := was
	was.Blocked, was.BlockedExcept, was.Admit, was.ManagedBy = is.Blocked, is.BlockedExcept, is.Admit, is.ManagedBy
	if was.Same(is) { // nothing else changes
		switch blocks := is.Blocked || is.BlockedExcept; {
		case blocks && (is.Blocked != before.Blocked || is.BlockedExcept != before.BlockedExcept):
			return "block_set"
		case !blocks && (before.Blocked || before.BlockedExcept):
			return "block_lifted"
		case is.Admit && !before.Admit:
			return "admit_set"
		case before.Admit && !is.Admit:
			return "admit_lifted"
		}
	}
	if action := raiseAction(was, is); action != "" {
		return action
	}
	if c.next == nil {
		return "limits_deleted"
	}
	return "limits_set"
}

// proposeConfig is the transaction of one change.
func (d *desk) proposeConfig(c *configChange, item schema.Item) (p table.Proposal, err error) {
	if err := c.plan(item, d.Clock.Now()); err != nil || !c.changes {
		return p, err
	}
	if err := d.addConfig(&p, c); err != nil {
		return p, err
	}
	p.Writes = append(p.Writes, d.registrations(c)...)
	return p, nil
}

// addConfig adds a change, with its event, to a proposal.
func (d *desk) addConfig(p *table.Proposal, c *configChange) error {
	what := deed{
		action: c.action(), target: targetOf(c.owner), resource: c.owner.Resource,
		before: configFields(c.stored), after: configFields(c.next), was: c.item,
	}
	unchanged := schema.ConfigUnchanged(c.item)
	write := d.Table.Delete(d.Keys.Config(c.owner), unchanged)
	if c.next != nil {
		what.is = c.next.Item(d.Keys, c.owner, c.item)
		write = d.Table.Put(what.is, unchanged)
	}
	one, err := d.propose(what, write)
	if err != nil {
		return err
	}
	p.Writes, p.Proof = append(p.Writes, one.Writes...), one.Proof
	return nil
}

// registrations are the parts of a transaction that count entities with limits, and list
// resources with limits, for tools: one for each item of those lists.
func (d *desk) registrations(changes ...*configChange) []types.TransactWriteItem {
	counts := map[string]int64{}
	for _, c := range changes {
		if n := c.counts(); n != 0 {
			counts[c.owner.Resource] += n
		}
	}
	var writes []types.TransactWriteItem
	if st, ok := schema.CountConfigs(counts); ok {
		writes = append(writes, d.Table.Update(d.Keys.EntityResources(), st))
	}
	return append(writes, d.listings(changes)...)
}

// listings is the part of a transaction that changes the list of resources with limits,
// if one does. One update cannot both add to a set and remove from it: changes of one
// transaction do either.
func (d *desk) listings(changes []*configChange) []types.TransactWriteItem {
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
	return []types.TransactWriteItem{d.Table.Update(d.Keys.Resources(), schema.ListResources(names, remove))}
}

// tidy removes the counts of resources that no entity has limits for any more. It may fail
// unseen: the change is made, and a count of 0 lists nothing.
func (d *desk) tidy(ctx context.Context, op string, changes ...*configChange) {
	done := map[string]bool{}
	for _, c := range changes {
		if resource := c.owner.Resource; c.counts() < 0 && !done[resource] && schema.Countable(resource) {
			done[resource] = true
			_ = d.Table.UpdateIf(ctx, op, d.Keys.EntityResources(), schema.Uncount(resource))
		}
	}
}
