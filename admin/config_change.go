package admin

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// targetOf returns the audit target of a change of the owner's configuration: the entity, plan, resource or
// system.
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

// configFields returns the settings of a configuration for an event, without empty ones and without the
// version. It is nil for nil.
func configFields(c *schema.ConfigItem) trail.Fields {
	if c == nil {
		return nil
	}
	fields := trail.Fields{}
	limits := make([]trail.Limit, len(c.Limits))
	for i, l := range c.Limits {
		limits[i] = trail.Limit{Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, Amount: l.RefillAmount, Period: l.PeriodSeconds(), Window: l.Window, Zone: l.Zone, Unit: l.Unit, PerModel: l.PerModel, MaxDebt: l.MaxDebt, Reserve: l.Reserve, Shadow: l.Shadow, Hold: int64(l.Hold / time.Second), Longest: int64(l.Longest / time.Second), AlertAt: l.AlertAt.List()}
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

// isResourceSource reports whether a configuration is a resource's for every entity.
func isResourceSource(o schema.ConfigOwner) bool {
	return o.Entity == "" && o.Plan == "" && o.Resource != ""
}

// planChange sets item and stored from the item, and next and changes from the result of edit without ended
// raises. The version rises with a change. It sets changes to false and fails with edit's error, for unknown
// parts unless next is Unread, and if a limit would turn into slots or from slots.
func (c *configChange) planChange(item schema.Item, now time.Time) error {
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
	if err := refuseOtherKind(c.stored, next); err != nil {
		c.changes = false
		return err
	}
	next = c.dropEndedRaises(next, now)
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

// refuseOtherKind returns a *ValidationError if next turns a limit of calls in flight into another kind, or the
// other way round. The slots of open calls would be lost.
func refuseOtherKind(stored, next *schema.ConfigItem) error {
	if stored == nil || next == nil {
		return nil
	}
	for _, was := range stored.Limits {
		for i, is := range next.Limits {
			if is.Name == was.Name && is.IsSlots() != was.IsSlots() {
				return invalid("limits["+strconv.Itoa(i)+"]", "makes %s another kind of limit, and only one of the two limits calls in flight; give the new limit another name", is.Name)
			}
		}
	}
	return nil
}

// dropEndedRaises removes ended raises from c.stored, and returns next without them, or nil if next is then empty.
// A resource's source is returned even if it is empty: the transaction does not remove it from the list of
// resources.
func (c *configChange) dropEndedRaises(next *schema.ConfigItem, now time.Time) *schema.ConfigItem {
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
	case isResourceSource(c.owner):
		return &left
	}
	return left.OrNone()
}

// firstVersion returns the version of a new configuration: now in Unix ms. It is above the version of any
// removed one, so a change planned on that does not apply.
func firstVersion(now time.Time) int64 { return max(1, now.UnixMilli()) }

// countChange returns the change in the number of entities with limits on the resource: 1 for an entity's new
// configuration, -1 for a removed one, else 0.
func (c *configChange) countChange() int64 {
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

// actionName returns the action of the change's audit event, such as "limits_set". A change of nothing but
// blocks, admissions or raises has an action of its own.
func (c *configChange) actionName() string {
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

// proposeConfig returns the transaction that makes the change c to the stored item, with its audit event and
// list updates, for the caller to commit. The transaction is empty if nothing changes.
func (d *desk) proposeConfig(c *configChange, item schema.Item) (p table.Proposal, err error) {
	if err := c.planChange(item, d.Clock.Now()); err != nil || !c.changes {
		return p, err
	}
	if err := d.addConfig(&p, c); err != nil {
		return p, err
	}
	p.Writes = append(p.Writes, d.updateLists(c)...)
	return p, nil
}

// addConfig appends the Put or Delete of a planned change and its audit event to p, and sets p.Proof to the
// event's key. The write applies only if the stored configuration still has the version that was read.
func (d *desk) addConfig(p *table.Proposal, c *configChange) error {
	what := deed{
		action: c.actionName(), target: targetOf(c.owner), resource: c.owner.Resource,
		before: configFields(c.stored), after: configFields(c.next), was: c.item,
	}
	unchanged := schema.ConfigUnchanged(c.item)
	write := d.Table.DeletePart(d.Keys.Config(c.owner), unchanged)
	if c.next != nil {
		what.is = c.next.Item(d.Keys, c.owner, c.item)
		write = d.Table.PutPart(what.is, unchanged)
	}
	one, err := d.propose(what, write)
	if err != nil {
		return err
	}
	p.Writes, p.Proof = append(p.Writes, one.Writes...), one.Proof
	return nil
}

// updateLists returns the writes, nil if not needed, that keep two lists up to date. These are the numbers of
// entities with limits by resource, and the resources with limits for everyone. It sends nothing.
func (d *desk) updateLists(changes ...*configChange) []types.TransactWriteItem {
	counts := map[string]int64{}
	for _, c := range changes {
		if n := c.countChange(); n != 0 {
			counts[c.owner.Resource] += n
		}
	}
	var writes []types.TransactWriteItem
	if st, ok := schema.CountConfigs(counts); ok {
		writes = append(writes, d.Table.UpdatePart(d.Keys.EntityResources(), st))
	}
	return append(writes, d.updateResourceList(changes)...)
}

// updateResourceList returns the write that adds resources to the list of those with limits for everyone, or
// removes them. It is nil if the changes need neither. One update cannot add and remove, so the changes of a
// transaction must all be of one kind.
func (d *desk) updateResourceList(changes []*configChange) []types.TransactWriteItem {
	var names []string
	remove := false
	for _, c := range changes {
		if c.changes && isResourceSource(c.owner) {
			names, remove = append(names, c.owner.Resource), c.next == nil
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []types.TransactWriteItem{d.Table.UpdatePart(d.Keys.Resources(), schema.ListResources(names, remove))}
}

// removeZeroCounts deletes the counts of resources on which no entity has limits any more, after these changes.
// It ignores errors, because a count of 0 lists nothing.
func (d *desk) removeZeroCounts(ctx context.Context, op string, changes ...*configChange) {
	done := map[string]bool{}
	for _, c := range changes {
		if resource := c.owner.Resource; c.countChange() < 0 && !done[resource] && schema.Countable(resource) {
			done[resource] = true
			_ = d.Table.UpdateIf(ctx, op, d.Keys.EntityResources(), schema.Uncount(resource))
		}
	}
}
