package admin

import (
	"context"
	"errors"
	"slices"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// ConfigEdit is a change of one owner's configuration.
type ConfigEdit struct {
	Owner schema.ConfigOwner
	Edit  Edit
	// Removes says that Edit returns nil.
	Removes bool
}

// ReadConfig is one of many configurations that were read: nil for none stored, and why it
// cannot be understood, see Malformed.
type ReadConfig struct {
	Config *schema.ConfigItem
	Err    error
}

// GetMany reads the configurations of many owners, in their order.
func (a Configs) GetMany(ctx context.Context, op string, owners []schema.ConfigOwner) ([]ReadConfig, error) {
	keys := make([]schema.Key, len(owners))
	for i, owner := range owners {
		keys[i] = a.Keys.Config(owner.Normal())
	}
	items, err := a.Table.GetMany(ctx, op, keys)
	if err != nil {
		return nil, err
	}
	read := make([]ReadConfig, len(owners))
	for i, item := range items {
		read[i].Config, read[i].Err = decodeConfig(item)
	}
	return read, nil
}

// batchOfConfigs is how many changes go in one transaction: each is a write and an event,
// the lists for tools are two more of the 100 that DynamoDB takes, and the check of the
// namespace is one.
const batchOfConfigs = 45

// ChangeMany is Change for many owners, each once: as many as fit in each
// transaction, so that lists for tools are written once for all of them. It returns an
// error for each, nil for one that was made. Once the store does not serve, or ctx has
// ended, the rest is left undone with that error.
func (a Configs) ChangeMany(ctx context.Context, by, op string, edits []ConfigEdit) []error {
	errs := make([]error, len(edits))
	var down error
	for _, places := range transactionsOf(edits) {
		if down != nil {
			for _, i := range places {
				errs[i] = down
			}
			continue
		}
		chunk := make([]ConfigEdit, len(places))
		for n, i := range places {
			chunk[n] = edits[i]
		}
		results, err := a.changeTogether(ctx, by, op, chunk)
		for n, i := range places {
			errs[i] = results[n]
		}
		if err != nil {
			down = a.stops(ctx, err)
		}
	}
	return errs
}

// transactionsOf are the places of edits that are made together, in their order but for
// those that take a resource from the list: see listings.
func transactionsOf(edits []ConfigEdit) [][]int {
	var rest, unlist []int
	for i, e := range edits {
		if e.Removes && ofResource(e.Owner) {
			unlist = append(unlist, i)
		} else {
			rest = append(rest, i)
		}
	}
	return slices.AppendSeq(slices.Collect(slices.Chunk(rest, batchOfConfigs)), slices.Chunk(unlist, batchOfConfigs))
}

// stops is the error for what comes after a failed transaction; nil to go on.
func (a Configs) stops(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrTable) || errors.Is(err, fault.ErrNamespace) {
		return err
	}
	return nil
}

// changeTogether makes changes in one transaction. Those whose edit refuses are left out.
// It also returns the error of the transaction itself.
func (a Configs) changeTogether(ctx context.Context, by, op string, edits []ConfigEdit) (errs []error, failed error) {
	b := configBatch{changes: make([]*configChange, len(edits)), errs: make([]error, len(edits)), keys: make([]schema.Key, len(edits))}
	for i, e := range edits {
		b.changes[i] = &configChange{owner: e.Owner.Normal(), edit: e.Edit}
		b.keys[i] = a.Keys.Config(b.changes[i].owner)
	}
	failed = a.Table.Change(ctx, op, func() (table.Proposal, error) { return a.proposeTogether(ctx, by, op, &b) })
	if failed == nil {
		a.tidy(ctx, op, b.changes)
	}
	for i, c := range b.changes {
		if failed != nil && b.errs[i] == nil && c.changes {
			b.errs[i] = failed
		}
	}
	return b.errs, failed
}

// configBatch is many changes under way, each with its key and its error.
type configBatch struct {
	changes []*configChange
	keys    []schema.Key
	errs    []error
}

// proposeTogether is the transaction of those changes that their edits do not refuse.
func (a Configs) proposeTogether(ctx context.Context, by, op string, b *configBatch) (table.Proposal, error) {
	var p table.Proposal
	items, err := a.Table.BatchGet(ctx, op, b.keys)
	if err != nil {
		for i, c := range b.changes {
			c.changes = b.errs[i] == nil // what was refused before stays refused
		}
		return p, err
	}
	for i, c := range b.changes {
		if b.errs[i] = c.plan(items[b.keys[i]], a.Now()); b.errs[i] != nil || !c.changes {
			continue
		}
		if b.errs[i] = a.addConfig(&p, by, c); b.errs[i] != nil {
			c.changes = false
		}
	}
	if len(p.Writes) > 0 {
		p.Writes = append(p.Writes, a.registrations(b.changes)...)
	}
	return p, nil
}
