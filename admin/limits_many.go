package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// SetConfigs makes many changes, each like SetConfig, or the removal of a source: as many as
// fit in each transaction, so that a thousand take seconds. Changes of one transaction are
// made together, without those whose source was changed meanwhile.
//
// It returns an error for each change, nil for one that was made, in their order, or a
// single error if the input is bad: then nothing was written. A failed call can be
// repeated.
func (l Limits) SetConfigs(ctx context.Context, changes []ScopedConfig) ([]error, error) {
	edits, owners := make([]*configChange, len(changes)), make([]schema.ConfigOwner, len(changes))
	for i, c := range changes {
		next, err := c.checkFor(l.d, fmt.Sprintf("changes[%d].", i))
		if err != nil {
			return nil, err
		}
		owners[i] = c.Scope.asOwner()
		edits[i] = &configChange{owner: owners[i], edit: c.Config.replaceEdit(c.Scope, next), removes: next == nil}
	}
	if twice, ok := repeatedScope(changes); ok {
		return nil, invalid("changes", "change %s twice; give each source once", twice)
	}
	if err := l.d.checkChange(ctx); err != nil {
		return nil, err
	}
	if err := l.d.prepareConfigs(ctx, lossCheck{}, changes...); err != nil {
		return nil, err
	}
	if err := l.d.takeOverAllBeforeChange(ctx, edits); err != nil {
		return nil, err
	}
	l.d.Told.Owners(owners...)
	defer l.d.Told.Owners(owners...)
	var down error
	for _, together := range transactionsOf(edits) {
		if down == nil {
			down = l.changeTogether(ctx, together)
			continue
		}
		for _, c := range together {
			c.err = down
		}
	}
	errs := make([]error, len(edits))
	for i, c := range edits {
		errs[i] = l.d.Layout.KindError(fmt.Sprintf("changes[%d]", i), c.err)
	}
	return errs, nil
}

// batchOfConfigs is the number of changes in one transaction: each is a write and an event,
// the lists for tools are two more of the 100 that DynamoDB takes, and the check of the
// namespace is one.
const batchOfConfigs = 45

// transactionsOf groups changes into transactions of at most 45, in order. Removals of resources' sources come
// last, in transactions of their own, because one update cannot both extend and shorten the list of resources.
func transactionsOf(edits []*configChange) [][]*configChange {
	var rest, unlist []*configChange
	for _, c := range edits {
		if c.removes && isResourceSource(c.owner) {
			unlist = append(unlist, c)
		} else {
			rest = append(rest, c)
		}
	}
	return slices.AppendSeq(slices.Collect(slices.Chunk(rest, batchOfConfigs)), slices.Chunk(unlist, batchOfConfigs))
}

// changeTogether makes changes in one transaction with their events and lists, and sets c.err of each that is
// refused or fails. It retries after conflicts. It returns an error if the following transactions would fail
// too, else nil.
func (l Limits) changeTogether(ctx context.Context, edits []*configChange) error {
	const op = "set limits"
	keys := make([]schema.Key, len(edits))
	for i, c := range edits {
		keys[i] = l.d.Keys.Config(c.owner)
	}
	var failed error
	for attempt, again := 1, true; again; attempt++ {
		items, err := l.d.Table.BatchGet(ctx, op, keys)
		if failed = err; err != nil {
			for _, c := range edits {
				c.changes = c.err == nil // a refused change stays refused
			}
			break
		}
		again, failed = l.d.Table.Try(ctx, op, attempt, l.proposeTogether(edits, items))
	}
	if failed == nil {
		l.d.removeZeroCounts(ctx, op, edits...)
		return nil
	}
	for _, c := range edits {
		if c.err == nil && c.changes {
			c.err = failed
		}
	}
	return fatalError(ctx, failed)
}

// proposeTogether plans each change on its stored item, sets c.err of refused ones, and returns the transaction
// of the others with their events and lists. It sends nothing.
func (l Limits) proposeTogether(edits []*configChange, items map[schema.Key]schema.Item) (p table.Proposal) {
	for _, c := range edits {
		if c.err = c.planChange(items[l.d.Keys.Config(c.owner)], l.d.Clock.Now()); c.err != nil || !c.changes {
			continue
		}
		if c.err = l.d.addConfig(&p, c); c.err != nil {
			c.changes = false
		}
	}
	if len(p.Writes) > 0 {
		p.Writes = append(p.Writes, l.d.updateLists(edits...)...)
	}
	return p
}

// fatalError returns err if the following transactions of a call would fail too: the table does not serve, or
// ctx has ended. Otherwise it returns nil.
func fatalError(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrTable) || errors.Is(err, fault.ErrNamespace) {
		return err
	}
	return nil
}

// checkFor validates the change, also for a Compatible repository, and returns the configuration to store, nil
// for a removal. A *ValidationError has prefix before its field. It sends nothing.
func (c ScopedConfig) checkFor(d *desk, prefix string) (*schema.ConfigItem, error) {
	next, err := c.newItem(prefix)
	if err != nil || next == nil { // a source that other tools refuse can be removed
		return nil, err
	}
	if next.Extends && d.Compatible {
		return nil, invalid(prefix+"config.extends", "is set, and zae-limiter would read the source as the whole list (RepositoryOptions.Compatible is set); set the whole list")
	}
	if (next.BlockedExcept || next.Admit || next.Counted) && d.Compatible {
		return nil, invalid(prefix+"config", "sets blockedExcept, admit or counted, which zae-limiter does not know (RepositoryOptions.Compatible is set); set blocked or unlimited, or leave it out")
	}
	return next, d.checkCompatible(c.Scope.Resource, prefix+"config.limits", next.Limits)
}
