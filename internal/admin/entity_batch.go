package admin

import (
	"context"
	"errors"
	"sync"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Setup is an entity to be made, with the limits that it is to have.
type Setup struct {
	Record schema.EntityRecord
	// Limits are at most MostLimits changes of the entity's own configuration.
	Limits []ConfigEdit
}

const (
	// transactionParts is how many items a proposal may have: DynamoDB takes 100 in one
	// transaction, and the check of the namespace is one.
	transactionParts = 99
	// MostLimits is for how many resources an entity is made with limits: each is a write
	// and an event, beside the record and its event, 7 parents and the count of limits.
	MostLimits = (transactionParts - 2 - (schema.MaxDepth - 1) - 1) / 2
	// mostMetadata bounds the metadata of one transaction: they are stored as text, as a
	// map and in the event, and DynamoDB takes 4 MB.
	mostMetadata = 512 << 10
	// mostQueries is how many queries are under way at once.
	mostQueries = 16
)

// CreateMany is Create, with limits, for many entities, each once: as many as
// fit in each transaction, in their order, so that parents may come before their children
// and limits are counted once. It returns an error for each, nil for one that was made.
// Once the store does not serve, or ctx has ended, the rest is left undone with that error.
func (a Entities) CreateMany(ctx context.Context, by string, setups []Setup) []error {
	errs := make([]error, 0, len(setups))
	for len(errs) < len(setups) {
		b := &entityBatch{Desk: a.Desk, of: a, by: by, op: "create entities", setups: window(setups[len(errs):], Setup.size)}
		failed := a.Table.Change(ctx, b.op, func() (table.Proposal, error) { return b.propose(ctx) })
		errs = append(errs, b.results(failed)...)
		if failed == nil {
			continue
		}
		if down := a.configs.stops(ctx, failed); down != nil {
			for len(errs) < len(setups) {
				errs = append(errs, down)
			}
		}
	}
	return errs
}

// size is how many parts of a transaction a setup needs, without its parents, and how much
// metadata it has.
func (s Setup) size() (parts, metadata int) { return 2 + 2*len(s.Limits), len(s.Record.Metadata) }

// window is as many of a list as may fit in one transaction, at least one.
func window[T any](list []T, size func(T) (parts, metadata int)) []T {
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
	*Desk
	of     Entities
	by, op string
	setups []Setup
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

// results are the errors of those that are decided; if the transaction failed, of at
// least one.
func (b *entityBatch) results(failed error) []error {
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

// propose is the transaction that makes as many of the entities as fit.
func (b *entityBatch) propose(ctx context.Context) (table.Proposal, error) {
	b.errs, b.p, b.configs = nil, table.Proposal{}, nil
	b.made, b.required = map[string]schema.Item{}, map[string]bool{}
	if err := b.read(ctx); err != nil {
		return table.Proposal{}, err
	}
	if err := b.readChildren(ctx); err != nil {
		return table.Proposal{}, err
	}
	for _, s := range b.setups {
		fits, err := b.add(ctx, s)
		if !fits {
			break
		}
		b.errs = append(b.errs, err)
	}
	if len(b.p.Writes) > 0 {
		b.p.Writes = append(b.p.Writes, b.of.configs.registrations(b.configs)...)
	}
	return b.p, nil
}

// read reads the records and configurations of the entities, and all their parents.
func (b *entityBatch) read(ctx context.Context) error {
	b.items = map[schema.Key]schema.Item{}
	keys := b.keys()
	for depth := 0; len(keys) > 0 && depth < schema.MaxDepth; depth++ {
		found, err := b.Table.BatchGet(ctx, b.op, keys)
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

// keys are those of the records and configurations of the entities and their parents.
func (b *entityBatch) keys() []schema.Key {
	var keys []schema.Key
	for _, s := range b.setups {
		keys = append(keys, b.Keys.Meta(s.Record.ID))
		if s.Record.ParentID != "" {
			keys = append(keys, b.Keys.Meta(s.Record.ParentID))
		}
		for _, l := range s.Limits {
			keys = append(keys, b.Keys.Config(l.Owner))
		}
	}
	return keys
}

// unknownParents are the keys of the parents of records that were not read yet.
func (b *entityBatch) unknownParents(found map[schema.Key]schema.Item) []schema.Key {
	var keys []schema.Key
	for _, item := range found {
		parent := schema.DecodeLink(item).ParentID
		if _, known := b.items[b.Keys.Meta(parent)]; parent != "" && !known {
			keys = append(keys, b.Keys.Meta(parent))
		}
	}
	return keys
}

// readChildren reads the first children of the entities that are to have a parent.
func (b *entityBatch) readChildren(ctx context.Context) error {
	var (
		queries sync.WaitGroup
		mu      sync.Mutex
		failed  error
		running = make(chan struct{}, mostQueries)
	)
	b.children = map[string][]string{}
	for _, s := range b.setups {
		id := s.Record.ID
		if s.Record.ParentID == "" {
			continue
		}
		running <- struct{}{}
		queries.Go(func() {
			ids, err := b.of.someChildren(ctx, id)
			mu.Lock()
			if b.children[id] = ids; err != nil {
				failed = err
			}
			mu.Unlock()
			<-running
		})
	}
	queries.Wait()
	return failed
}

// record is the record that an entity has once the proposal is made.
func (b *entityBatch) record(ctx context.Context, id string) (schema.Item, error) {
	if item := b.made[id]; item != nil {
		return item, nil
	}
	key := b.Keys.Meta(id)
	if item, known := b.items[key]; known {
		return item, nil
	}
	return b.Table.Get(ctx, b.op, key)
}

// add adds an entity to the proposal. It is false for one that does not fit.
func (b *entityBatch) add(ctx context.Context, s Setup) (fits bool, err error) {
	e := s.Record
	if item := b.items[b.Keys.Meta(e.ID)]; item != nil {
		return true, exists(e.ID, item)
	}
	if b.required[e.ID] { // not to be there: one transaction cannot make it as well
		return false, nil
	}
	above, err := walk(e.ID, e.ParentID, func(id string) (schema.Item, error) { return b.record(ctx, id) })
	if errors.Is(err, errTorn) {
		err = invalid("entity.ParentID", "has parents in a cycle, or that are being moved (%v); create it again, or correct them with Entities.Update", err)
	}
	if err == nil && len(b.children[e.ID]) > 0 {
		err = b.of.checkBelow(ctx, e.ID, 1+len(above))
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
	if len(b.p.Writes)+2+len(parents)+2*len(s.Limits)+1 > transactionParts {
		return false, nil
	}
	return true, b.put(e, parents, s.Limits)
}

// put adds what makes an entity to the proposal; nothing if that fails.
func (b *entityBatch) put(e schema.EntityRecord, parents []ancestor, limits []ConfigEdit) error {
	e.CreatedAt, e.Version = b.Now(), 1
	item := e.Item(b.Keys, nil)
	p, err := b.Desk.propose(created(b.by, e, item), b.Table.Put(item, schema.EntityUnchanged(nil)))
	if err != nil {
		return err
	}
	var configs []*configChange
	for _, l := range limits {
		c := &configChange{owner: l.Owner.Normal(), edit: l.Edit}
		if err := c.plan(b.items[b.Keys.Config(l.Owner)], b.Now()); err != nil {
			return err
		}
		if !c.changes {
			continue
		}
		if err := b.of.configs.addConfig(&p, b.by, c); err != nil {
			return err
		}
		configs = append(configs, c)
	}
	b.made[e.ID] = item
	for _, parent := range parents {
		b.required[parent.id] = true
	}
	b.p.Writes, b.p.Proof = append(append(b.p.Writes, p.Writes...), b.of.adopt(parents)...), p.Proof
	b.configs = append(b.configs, configs...)
	return nil
}
