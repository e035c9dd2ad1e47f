package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// EntitySetup is an entity to be made, with the limits that it is to have.
type EntitySetup struct {
	// Entity is the entity, see Entities.Create.
	Entity Entity
	// Limits are the entity's own, by resource; the resource "" is its default, for every
	// resource that it has no limits for. At most 44 resources. Defaults to none.
	Limits map[string][]dynalimit.Limit
}

// CreateMany makes many entities with their limits: as many as fit in each
// transaction, with their events, so that ten thousand take seconds. They are made in
// their order: a parent comes before its children. An entity is made with all its limits
// or not at all. One that cannot be made, for example because it has a record, does
// not stop the others of its transaction.
//
// It returns an error for each setup, nil for one that was made, in their order; see
// Create and Limits.Set. If the input is bad it returns a single
// *ValidationError, and nothing was written. Once the table does not serve, or ctx has
// ended, the rest fails with that error; another call can make them.
func (n Entities) CreateMany(ctx context.Context, setups []EntitySetup) ([]error, error) {
	checked, made, err := checkSetups(setups, n.newSetup)
	if err != nil {
		return nil, err
	}
	if err := n.d.checkChange(ctx); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(checked, func(s setup) bool { return s.record.CountsByOwn() }); i >= 0 {
		if err := n.d.checkParentCounts(ctx, checked[i].record); err != nil {
			return nil, withinField(fmt.Sprintf("setups[%d].", i), err)
		}
	}
	var limits []*configChange
	var configs []ScopedConfig
	for i, s := range setups {
		limits = append(limits, checked[i].limits...)
		for resource, of := range s.Limits {
			configs = append(configs, ScopedConfig{Scope: Scope{Entity: s.Entity.ID, Resource: resource}.normalized(), Config: LimitConfig{Limits: of}})
		}
	}
	if err := n.d.prepareList(ctx, configs...); err != nil { // a new entity loses no limits
		return nil, err
	}
	if err := n.d.takeOverAllBeforeChange(ctx, limits); err != nil {
		return nil, err
	}
	defer n.d.Told.Entities(made)
	errs := make([]error, 0, len(setups))
	for len(errs) < len(setups) {
		b := &entityBatch{lineage: n.lineage, setups: firstFitting(checked[len(errs):], setup.writesNeeded)}
		var failed error
		for attempt, again := 1, true; again; attempt++ {
			if failed = b.readItems(ctx); failed == nil {
				failed = b.readChildren(ctx)
			}
			if failed != nil {
				break
			}
			again, failed = n.d.Table.Try(ctx, opCreateMany, attempt, b.propose(ctx))
		}
		errs = append(errs, b.takeResults(failed)...)
		if down := fatalError(ctx, failed); down != nil {
			errs = append(errs, slices.Repeat([]error{down}, len(setups)-len(errs))...)
		}
	}
	for i, err := range errs {
		errs[i] = n.d.Layout.KindError(fmt.Sprintf("setups[%d]", i), err)
	}
	return errs, nil
}

// checkSetups validates setups with check, and refuses two of one entity. It returns the checked setups, and
// the set of their entity ids; a *ValidationError names the setup by its index.
func checkSetups(setups []EntitySetup, check func(EntitySetup) (setup, error)) ([]setup, map[string]bool, error) {
	checked, made := make([]setup, len(setups)), make(map[string]bool, len(setups))
	for i, s := range setups {
		one, err := check(s)
		if err == nil && made[s.Entity.ID] {
			err = invalid("entity.ID", "%q is given twice; give each entity once", s.Entity.ID)
		}
		if err != nil {
			return nil, nil, withinField(fmt.Sprintf("setups[%d].", i), err)
		}
		made[s.Entity.ID], checked[i] = true, one
	}
	return checked, made, nil
}

// opCreateMany names the making of entities in errors.
const opCreateMany = "create entities"

// setup is a checked EntitySetup: the limits are at most mostLimits changes of the entity's
// own configuration.
type setup struct {
	record schema.EntityRecord
	limits []*configChange
}

// newSetup validates a setup and converts it to its record and one configChange for each resource, sorted. It
// refuses too many resources, and limits that a Compatible repository must not have. A *ValidationError names
// the field.
func (n Entities) newSetup(s EntitySetup) (setup, error) {
	one := setup{record: recordOf(s.Entity)}
	if err := s.Entity.Validate(); err != nil {
		return one, err
	}
	if len(s.Limits) > mostLimits {
		return one, withFix(invalid("limits", "are for %d resources; give at most %d with the entity, and set the others", len(s.Limits), mostLimits), fault.SetConfigs)
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Limits)) {
		field, limits := fmt.Sprintf("limits[%s]", resource), s.Limits[resource]
		at := Scope{Entity: s.Entity.ID, Resource: resource}
		if err := at.validate(field + "."); err != nil {
			return one, err
		}
		if _, both := s.Limits[""]; both && resource == schema.DefaultResource {
			return one, invalid(field, "is the default, as is limits[]; leave one of them out")
		}
		stored, err := configLimits(field, limits)
		if err != nil {
			return one, err
		}
		if err := n.d.checkCompatible(resource, field, stored); err != nil {
			return one, err
		}
		one.limits = append(one.limits, &configChange{owner: at.asOwner(), edit: replaceLimitsEdit(stored)})
	}
	return one, nil
}

const (
	// transactionParts is how many items a proposal may have: DynamoDB takes 100 in one
	// transaction, and the check of the namespace is one.
	transactionParts = 99
	// mostLimits is the most resources with limits of a new entity: each is a write
	// and an event, beside the record and its event, 7 parents and the count of limits.
	mostLimits = (transactionParts - 2 - (schema.MaxDepth - 1) - 1) / 2
	// mostMetadata bounds the metadata of one transaction: they are stored as text, as a
	// map and in the event, and DynamoDB takes 4 MB.
	mostMetadata = 512 << 10
	// mostQueries is how many queries are under way at once.
	mostQueries = 16
)

// writesNeeded returns how much of a transaction the setup needs, without its parents: the number of its
// writes, and the bytes of its metadata.
func (s setup) writesNeeded() (parts, metadata int) {
	return 2 + 2*len(s.limits), len(s.record.Metadata)
}

// firstFitting returns the longest start of list that fits in one transaction, at least one element. The
// function size returns the number of items and the bytes of metadata that an element needs.
func firstFitting[T any](list []T, size func(T) (parts, metadata int)) []T {
	parts, metadata := 0, 0
	for i, one := range list {
		p, m := size(one)
		parts, metadata = parts+p, metadata+m
		if i > 0 && (parts >= transactionParts || metadata > mostMetadata) {
			return list[:i]
		}
	}
	return list
}

// entityBatch is entities that are made in one transaction.
type entityBatch struct {
	lineage
	setups []setup
	// errs are those of the setups that are decided, in their order; nil for one that the
	// proposal makes. The others are left for the next transaction.
	errs []error
	// items are the records and configurations as read, children the first children.
	items    map[schema.Key]schema.Item
	children map[string][]string
	// made are the records that the proposal puts, required the parents that it requires.
	made     map[string]schema.Item
	required map[string]bool
	p        table.Proposal
	configs  []*configChange
}

// takeResults returns the errors of the setups that the last proposal decided: nil for a created one. If its
// transaction failed, the setups in it get that error; at least one setup is decided.
func (b *entityBatch) takeResults(failed error) []error {
	if failed == nil {
		return b.errs
	}
	if len(b.errs) == 0 {
		b.errs = make([]error, len(b.setups))
	}
	for i, err := range b.errs {
		if err == nil {
			b.errs[i] = failed
		}
	}
	return b.errs
}

// propose returns the transaction that creates as many of the entities as fit, in order. It sets b.errs to one
// error for each entity up to the last that fits: nil, or the reason that it cannot be created. It replaces the
// earlier proposal in b.
func (b *entityBatch) propose(ctx context.Context) table.Proposal {
	b.errs, b.p, b.configs = nil, table.Proposal{}, nil
	b.made, b.required = map[string]schema.Item{}, map[string]bool{}
	for _, s := range b.setups {
		fits, err := b.addEntity(ctx, s)
		if !fits {
			break
		}
		b.errs = append(b.errs, err)
	}
	if len(b.p.Writes) > 0 {
		b.p.Writes = append(b.p.Writes, b.d.updateLists(b.configs...)...)
	}
	return b.p
}

// readItems reads into b.items the records and configurations of the entities, and the records of all their
// parents, consistently; an absent one is nil. It clears b.errs.
func (b *entityBatch) readItems(ctx context.Context) error {
	b.errs, b.items = nil, map[schema.Key]schema.Item{}
	keys := b.keysToRead()
	for depth := 0; len(keys) > 0 && depth < schema.MaxDepth; depth++ {
		found, err := b.d.Table.BatchGet(ctx, opCreateMany, keys)
		if err != nil {
			return err
		}
		for _, key := range keys {
			b.items[key] = found[key]
		}
		keys = b.unknownParents(found)
	}
	return nil
}

// keysToRead returns the keys of the entities' records and configurations, and those of their parents' records.
func (b *entityBatch) keysToRead() []schema.Key {
	var keys []schema.Key
	for _, s := range b.setups {
		keys = append(keys, b.d.Keys.Meta(s.record.ID))
		if s.record.ParentID != "" {
			keys = append(keys, b.d.Keys.Meta(s.record.ParentID))
		}
		for _, l := range s.limits {
			keys = append(keys, b.d.Keys.Config(l.owner))
		}
	}
	return keys
}

// unknownParents returns the keys of the parents of found records, except for parents already in b.items.
func (b *entityBatch) unknownParents(found map[schema.Key]schema.Item) []schema.Key {
	var keys []schema.Key
	for _, item := range found {
		parent := schema.DecodeLink(item).ParentID
		if _, known := b.items[b.d.Keys.Meta(parent)]; parent != "" && !known {
			keys = append(keys, b.d.Keys.Meta(parent))
		}
	}
	return keys
}

// readChildren reads into b.children the first children of the entities that get a parent, to check depths,
// from the index, which may lag. It runs mostQueries queries at a time.
func (b *entityBatch) readChildren(ctx context.Context) error {
	var mu sync.Mutex
	queries := guard.Group{}
	queries.SetLimit(mostQueries)
	b.children = map[string][]string{}
	for _, s := range b.setups {
		if s.record.ParentID == "" {
			continue
		}
		queries.Go(func() error {
			ids, err := b.someChildren(ctx, s.record.ID)
			mu.Lock()
			defer mu.Unlock()
			b.children[s.record.ID] = ids
			return err
		})
	}
	return queries.Wait()
}

// recordAfter returns the record that an entity will have after the transaction; nil without one. It takes it
// from the proposal, then from b.items, and reads it otherwise, without storing it.
func (b *entityBatch) recordAfter(ctx context.Context, id string) (schema.Item, error) {
	if item := b.made[id]; item != nil {
		return item, nil
	}
	key := b.d.Keys.Meta(id)
	if item, known := b.items[key]; known {
		return item, nil
	}
	return b.d.Table.Get(ctx, opCreateMany, key)
}

// addEntity adds an entity with its limits to the proposal, and counts it as a child in a parent that the
// proposal makes. It returns false, and leaves the proposal unchanged, if they do not fit. The error is why
// this entity alone cannot be created.
func (b *entityBatch) addEntity(ctx context.Context, s setup) (fits bool, err error) {
	e := s.record
	if item := b.items[b.d.Keys.Meta(e.ID)]; item != nil {
		return true, existsError(e.ID, item)
	}
	if b.required[e.ID] { // not to be there: one transaction cannot make it as well
		return false, nil
	}
	above, err := walkAncestors(e.ID, e.ParentID, func(id string) (schema.Item, error) { return b.recordAfter(ctx, id) })
	if errors.Is(err, errTorn) {
		err = withFix(invalid("entity.ParentID", "has parents in a cycle, or parents that are being moved (%v); create it again, or correct the parents", err), fault.UpdateEntity)
	}
	if err == nil && len(b.children[e.ID]) > 0 {
		err = b.checkDescendants(ctx, e.ID, 1+len(above))
	}
	if err != nil {
		return true, err
	}
	var parents []ancestor
	for _, p := range above {
		if b.made[p.id] == nil && !b.required[p.id] {
			parents = append(parents, p)
		}
	}
	if len(b.p.Writes)+2+len(parents)+2*len(s.limits)+1 > transactionParts {
		return false, nil
	}
	err = b.addWrites(e, parents, s.limits)
	if parent := b.made[e.ParentID]; err == nil && parent != nil {
		schema.AdoptNew(parent)
	}
	return true, err
}

// addWrites adds the writes of an entity, of its limits and of the checks of its parents to the proposal. It
// notes them in b.made, b.required and b.configs. After an error the proposal is unchanged.
func (b *entityBatch) addWrites(e schema.EntityRecord, parents []ancestor, limits []*configChange) error {
	e.CreatedAt, e.Version = b.d.Clock.Now(), 1
	item := e.Item(b.d.Keys, nil)
	p, err := b.d.propose(createDeed(e, item), b.d.Table.PutPart(item, schema.EntityUnchanged(nil)))
	if err != nil {
		return err
	}
	var configs []*configChange
	for _, c := range limits {
		if err := c.planChange(b.items[b.d.Keys.Config(c.owner)], b.d.Clock.Now()); err != nil {
			return err
		}
		if !c.changes {
			continue
		}
		if err := b.d.addConfig(&p, c); err != nil {
			return err
		}
		configs = append(configs, c)
	}
	b.made[e.ID] = item
	for _, parent := range parents {
		b.required[parent.id] = true
	}
	b.p.Writes, b.p.Proof = append(append(b.p.Writes, p.Writes...), b.requireAncestors(parents)...), p.Proof
	b.configs = append(b.configs, configs...)
	return nil
}
