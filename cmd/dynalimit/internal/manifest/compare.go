package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/admin"
)

// Compare returns the plan of changes that make a table match a manifest; it changes nothing. Items that
// another manifest manages, and differing items without a manager, are refused unless the options adopt them. A
// managed source that the file leaves out is deleted; a left out entity stays with its sources, unless it is to
// be pruned.
func Compare(m *Manifest, live *Live, o Options) Plan {
	c := &comparison{m: m, live: live, o: o, p: Plan{Name: m.Name}, stuck: map[string]bool{}, pruned: map[string]bool{}}
	c.indexChildren()
	c.compareSources()
	c.compareRecords()
	c.pruneLeftOut()
	c.p.ByHand, c.p.Raises = sourcesByHand(m, live), raisesIn(live)
	c.warnOfNames()
	c.warnOfStranded()
	slices.Sort(c.noted)
	c.p.Warnings = append(c.p.Warnings, c.noted...)
	c.sortChanges()
	return c.p
}

type comparison struct {
	m    *Manifest
	live *Live
	o    Options
	p    Plan

	below  map[string][]string // live entities by parent
	pruned map[string]bool     // deleted entities
	joined map[string]bool     // plans that entities join
	stuck  map[string]bool     // entities with a refused record: they stay as they are
	groups map[string]bool     // resources that are groups, now or at the end

	noted []string // warnings about sources
}

// indexChildren sets c.below to the ids of live entities by parent; the key "" has those without a parent.
func (c *comparison) indexChildren() {
	c.below = map[string][]string{}
	for id, e := range c.live.Entities {
		c.below[e.ParentID] = append(c.below[e.ParentID], id)
	}
}

// checkOwner classifies an item by managedBy, the manifest that manages it, or "". ours is true for this
// manifest; mine also for items that the options permit to adopt. why is the reason to refuse the others.
func (c *comparison) checkOwner(managedBy string) (ours, mine bool, why string) {
	switch {
	case managedBy == c.m.Name:
		return true, true, ""
	case managedBy == "":
		return false, c.o.Adopt, "no manifest manages it: --adopt takes it over, or take it out of the file"
	}
	return false, c.o.AdoptFrom == managedBy,
		fmt.Sprintf("manifest %q manages it: take it out of one of the two files, or take it over with --adopt-from %s", managedBy, managedBy)
}

// decideChange returns a change to an existing item with its action: update, adopt or refuse; an adoption adds
// the field managed_by. It returns false if the item stays as it is, and counts it as unchanged, and as
// unmanaged if no manifest manages it.
func (c *comparison) decideChange(ch Change, managedBy string) (Change, bool) {
	ours, mine, why := c.checkOwner(managedBy)
	switch {
	case ours && len(ch.Fields) == 0:
		c.p.Unchanged++
		return ch, false
	case mine && len(ch.Fields) == 0:
		ch.Action = Adopt
	case mine:
		ch.Action = Update
		if !ours {
			ch.Fields = append(ch.Fields, Field{"managed_by", managedBy, c.m.Name})
		}
	case len(ch.Fields) == 0 && managedBy == "":
		c.p.Unchanged++
		c.p.Unmanaged++
		return ch, false
	default:
		ch.Action, ch.Note = Refuse, why
	}
	return ch, true
}

// addChange appends a change to the plan c.p.
func (c *comparison) addChange(ch Change) { c.p.Changes = append(c.p.Changes, ch) }

// compareSources adds to the plan the changes of the file's sources with their warnings, and the deletions of
// managed sources that the file leaves out. It refuses money limits on resources outside a group of models, and
// skips entities in deletion.
func (c *comparison) compareSources() {
	grouped := groupedBy(c.m, c.live.Configs)
	for at, wanted := range c.m.Configs {
		if c.live.Entities[at.Entity].Deleting {
			continue // reported for the record
		}
		ch, differs := c.compareSource(at, wanted)
		switch why := checkMoneyGroup(grouped, at, wanted); {
		case why != "" && differs:
			ch.Action, ch.Note = Refuse, why
		case why != "":
			c.noted = append(c.noted, fmt.Sprintf("%s: %s", at, why))
		}
		if differs {
			c.addChange(ch)
		}
		if differs && ch.Action != Refuse {
			for _, warning := range c.live.Configs[at].WarnOfChange(wanted) {
				c.noted = append(c.noted, fmt.Sprintf("%s: %s", at, warning))
			}
		}
	}
	for at, stored := range c.live.Configs {
		_, named := c.m.Entities[at.Entity]
		_, wanted := c.m.Configs[at]
		if !wanted && stored.ManagedBy == c.m.Name && (at.Entity == "" || named) && !c.live.Entities[at.Entity].Deleting {
			c.deleteSource(at, stored, c.keepBlock(at, stored, admin.LimitConfig{}))
		}
	}
}

// compareSource returns the change that makes the source at equal wanted, with stored raises and perhaps a
// stored block kept. An unreadable stored source gives a refusal. It returns false, and counts the source as
// unchanged, if they are equal already.
func (c *comparison) compareSource(at admin.Scope, wanted admin.LimitConfig) (Change, bool) {
	stored := c.live.Configs[at]
	wanted = c.keepBlock(at, stored, wanted)
	ch := Change{Action: Create, Scope: &at, config: wanted, Fields: sourceFields(stored, wanted)}
	ch.config.ManagedBy, ch.config.Version, ch.config.Raises = c.m.Name, stored.Version, stored.Raises
	if why, bad := c.live.Unreadable[at]; bad {
		ch.Action, ch.Note = Refuse, fmt.Sprintf("what is stored %s: remove the source with 'dynalimit limits delete' or its like, then apply again", why)
		return ch, true
	}
	if stored.ManagedBy == "" && sameSource(stored, admin.LimitConfig{}) { // missing, or an empty item
		return ch, true
	}
	return c.decideChange(ch, stored.ManagedBy)
}

// deleteSource adds the change that reduces the stored configuration to stays, which has at most a block. It is
// an update if the block or raises remain, else a deletion. If nothing would change, it counts the source as
// unchanged.
func (c *comparison) deleteSource(at admin.Scope, stored, stays admin.LimitConfig) {
	ch := Change{Action: Delete, Scope: &at, Fields: sourceFields(stored, stays), config: stays}
	ch.config.Version = stored.Version
	if ch.config.Raises = stored.Raises; len(stored.Raises) > 0 {
		ch.Action = Update
	}
	if blockOf(stays) != noBlock {
		ch.Action, ch.config.ManagedBy = Update, c.m.Name
	}
	if len(ch.Fields) == 0 {
		c.p.Unchanged++
		return
	}
	c.addChange(ch)
}

// compareRecords adds the changes of the file's entities, and marks entities with a refused record in c.stuck.
// It refuses entities in a cycle of parents, chains that are too deep, and parents that are being deleted.
func (c *comparison) compareRecords() {
	var changes []Change
	for id, e := range c.m.Entities {
		if ch, differs := c.compareRecord(id, e); differs {
			c.stuck[id] = ch.Action == Refuse
			changes = append(changes, ch)
		}
	}
	for _, ch := range changes {
		if chain, ok := chainOf(ch.Entity, c.finalParent); !ok && ch.Action != Refuse {
			ch.Action, ch.Note = Refuse, "its parent "+chainProblem(ch.Entity, chain)
		}
		if p := c.live.Entities[ch.record.ParentID]; ch.Action != Refuse && p.Deleting {
			ch.Action, ch.Note = Refuse, fmt.Sprintf("its parent %q is being deleted: finish that with 'dynalimit entity delete %s', then apply again", p.ID, p.ID)
		}
		c.addChange(ch)
	}
}

// compareRecord returns the change that makes an entity's record equal the file's, or a refusal if the entity
// is being deleted. It returns false if they are equal, or if the file only has limits of the entity and the
// manifest does not manage its record.
func (c *comparison) compareRecord(id string, e Entity) (Change, bool) {
	stored, there := c.live.Entities[id]
	ch := Change{Action: Create, Entity: id, record: e.Record, Fields: recordFields(stored, e.Record)}
	ch.moves = stored.ParentID != e.Record.ParentID
	ch.record.ManagedBy, ch.record.Version, ch.record.CreatedAt = c.m.Name, stored.Version, stored.CreatedAt
	if sameJSON(stored.Metadata, e.Record.Metadata) {
		ch.record.Metadata = stored.Metadata
	}
	switch {
	case stored.Deleting:
		ch.Action, ch.Note = Refuse, fmt.Sprintf("it is being deleted: finish that with 'dynalimit entity delete %s', then apply again", id)
	case e.LimitsOnly && (!there || stored.ManagedBy != c.m.Name):
		return ch, false // the file does not define the record
	case there:
		return c.decideChange(ch, stored.ManagedBy)
	}
	return ch, true
}

// finalParent returns an entity's parent after the plan is applied, or "". It is the file's, or the stored one
// if the file does not define the record or the record is refused.
func (c *comparison) finalParent(id string) string {
	if e, named := c.m.Entities[id]; named && !c.stuck[id] && (!e.LimitsOnly || c.live.Entities[id].ManagedBy == c.m.Name) {
		return e.Record.ParentID
	}
	return c.live.Entities[id].ParentID
}

// warnOfNames adds warnings about parents of the file's entities without a record, and about plans and groups
// without limits, in file and table. It also warns about a parent to which the calls of its children charge
// nothing.
func (c *comparison) warnOfNames() {
	plans, owners := map[string]bool{}, map[string]bool{}
	for _, configs := range []map[admin.Scope]admin.LimitConfig{c.m.Configs, c.live.Configs} {
		for at := range configs {
			plans[at.Plan], owners[at.Entity] = true, true
		}
	}
	told := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.m.Entities)) {
		r := c.m.Entities[id].Record
		_, named := c.m.Entities[r.ParentID]
		_, live := c.live.Entities[r.ParentID]
		if r.ParentID != "" && !named && !live {
			c.p.Warnings = append(c.p.Warnings, fmt.Sprintf("entity %s: its parent %q is neither in the file nor in the table", id, r.ParentID))
		}
		counts := r.ParentID != "" && !r.Cascade && !r.Detached
		if plan := c.finalPlan(r.ParentID); counts && !told[r.ParentID] && !owners[r.ParentID] && (plan == "" || !plans[plan]) {
			told[r.ParentID] = true
			c.p.Warnings = append(c.p.Warnings, fmt.Sprintf("entity %s: its parent %q has no limits of its own and no plan with limits: calls of its children charge nothing to it", id, r.ParentID))
		}
		if r.Plan != "" && !plans[r.Plan] {
			c.p.Warnings = append(c.p.Warnings, fmt.Sprintf("entity %s: its plan %q has limits neither in the file nor in the table", id, r.Plan))
		}
	}
	for at, group := range c.m.groupsWithoutLimits(c.live.Configs) {
		c.p.Warnings = append(c.p.Warnings, fmt.Sprintf("%s: its group %q has limits neither in the file nor in the table", at, group))
	}
}

// warnOfStranded adds a warning for each plan that loses its limits by this apply while entities outside the
// file stay on it, with their number.
func (c *comparison) warnOfStranded() {
	gone := gonePlans(c)
	on := map[string]int{}
	for id, e := range c.live.Entities {
		if _, named := c.m.Entities[id]; !named && !e.Deleting && !c.pruned[id] && gone[e.Plan] {
			on[e.Plan]++
		}
	}
	for _, plan := range slices.Sorted(maps.Keys(on)) {
		c.p.Warnings = append(c.p.Warnings, fmt.Sprintf("plan %s: its limits go, and %s on it: less specific limits will apply to them",
			plan, countText(on[plan], "entity stays", "entities stay")))
	}
}

// keepBlock returns wanted with a stored block that blocks more than the file's, unless the options lift
// blocks. It adds a warning to c.noted in both cases. It returns wanted as it is for a source that the manifest
// may not change.
func (c *comparison) keepBlock(at admin.Scope, stored, wanted admin.LimitConfig) admin.LimitConfig {
	if _, mine, _ := c.checkOwner(stored.ManagedBy); !mine || blockOf(stored) <= blockOf(wanted) {
		return wanted
	}
	what := "it stays blocked; --lift-blocks lifts it"
	if c.o.LiftBlocks {
		what = "the block is lifted"
	}
	c.noted = append(c.noted, fmt.Sprintf("%s is blocked, and the file does not block it: %s", at, what))
	if !c.o.LiftBlocks {
		wanted.Blocked, wanted.BlockedExcept, wanted.Admit = stored.Blocked, stored.BlockedExcept, false
	}
	return wanted
}

// Degrees of a block.
const (
	noBlock = iota
	blockWithExceptions
	plainBlock
)

// blockOf returns the degree of a configuration's block: noBlock, blockWithExceptions or plainBlock. A higher
// degree blocks more calls.
func blockOf(l admin.LimitConfig) int {
	switch {
	case l.Blocked:
		return plainBlock
	case l.BlockedExcept:
		return blockWithExceptions
	}
	return noBlock
}

// gonePlans returns the set of plans that lose all their sources by this apply: the manifest manages every
// stored one, and the file has none. c is not changed.
func gonePlans(c *comparison) map[string]bool {
	gone := map[string]bool{}
	for at := range c.live.Configs {
		gone[at.Plan] = true
	}
	for at, stored := range c.live.Configs {
		if stored.ManagedBy != c.m.Name {
			delete(gone, at.Plan)
		}
	}
	for at := range c.m.Configs {
		delete(gone, at.Plan)
	}
	delete(gone, "")
	return gone
}
