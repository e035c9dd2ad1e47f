package manifest

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Failure is a change that was not made.
type Failure struct {
	// What names the item, as Change.What does.
	What string `json:"what"`
	// Conflict is true if another caller changed the item after the planning.
	Conflict bool `json:"conflict,omitempty"`
	// Error is the reason.
	Error string `json:"error"`
	// Err is the library's error. It is nil for a change that waits for another.
	Err error `json:"-"`
}

// Outcome is the result of an apply.
type Outcome struct {
	// Done counts the changes that were made.
	Done int `json:"done"`
	// Failed are the failed changes.
	Failed []Failure `json:"failed,omitempty"`
	// Left counts the changes that were not tried.
	Left int `json:"left"`
}

// Conflicts returns the number of failures that another caller's change of the item caused.
func (o Outcome) Conflicts() (n int) {
	for _, f := range o.Failed {
		n += btoi(f.Conflict)
	}
	return n
}

const (
	// batch is the number of changes between two checks for Ctrl-C and progress: two
	// transactions of sources.
	batch = 90
	// tryTime bounds a try of a batch, which is finished even when the program is to end.
	tryTime = time.Minute
	// tries is the number of tries of a batch while the table does not answer. The pause
	// doubles before each.
	tries = 6
	pause = 250 * time.Millisecond
)

// Apply makes the changes of a plan except refused ones, in order, each on the condition of the planned
// version. A change fails if another caller changed the item, or if one that it depends on failed; the others
// are made. When ctx ends or the table cannot be changed, it returns the outcome so far and an error.
func Apply(ctx context.Context, t Table, p Plan, progress func(done, total int)) (Outcome, error) {
	todo := slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.Action == Refuse })
	a := &applying{table: t, total: len(todo)}
	for len(todo) > 0 {
		a.waiting = nil
		for _, chunk := range splitBatches(todo) {
			if a.tried > 0 {
				progress(a.tried, a.total)
			}
			if err := context.Cause(ctx); err != nil {
				return a.finalOutcome(err)
			}
			if chunk = a.readyChanges(chunk); len(chunk) == 0 {
				continue
			}
			do := a.methodOf(chunk[0])
			for try := 1; len(chunk) > 0; try++ { // finished even when ctx ends, unless the table does not answer
				within, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTime)
				errs := do(within, chunk)
				cancel()
				var err error
				if chunk, err = a.settleTry(ctx, chunk, errs, try); err != nil {
					return a.finalOutcome(err)
				}
			}
		}
		a.ending = len(a.waiting) == len(todo) // no remaining change could unblock the waiting ones
		todo = a.waiting
	}
	progress(a.total, a.total)
	return a.finalOutcome(nil)
}

// splitBatches splits changes, in their order, into batches of at most 90. A batch has changes of one step, and
// of one depth for deleted entities. A batch that begins with a change of a parent has only that.
func splitBatches(changes []Change) (out [][]Change) {
	for len(changes) > 0 {
		n, first := 1, changes[0]
		for n < len(changes) && n < batch && !first.moves && changes[n].step == first.step && (first.step != stepDeleteEntities || changes[n].depth == first.depth) {
			n++
		}
		out, changes = append(out, changes[:n]), changes[n:]
	}
	return out
}

type applying struct {
	table   Table
	total   int
	tried   int
	out     Outcome
	failed  []missing
	waiting []Change // waiting for others, for the next round
	ending  bool     // the last round: no change waits any more
}

// finalOutcome sets a.out.Left to the number of changes that are neither done nor failed, and returns the
// outcome and err.
func (a *applying) finalOutcome(err error) (Outcome, error) {
	a.out.Left = a.total - a.out.Done - len(a.out.Failed)
	return a.out, err
}

// settleTry records the outcome of the answered changes by errs, and returns the unanswered ones, after a pause
// that doubles each time. An error ends the apply: the table cannot be changed, or changes are unanswered after
// the last try or the end of ctx.
func (a *applying) settleTry(ctx context.Context, changes []Change, errs []error, try int) (rest []Change, err error) {
	for i, e := range errs {
		if isUnanswered(e) {
			rest, err = append(rest, changes[i]), e
			continue
		}
		if stopped := a.settleChange(changes[i], e); stopped != nil {
			return nil, stopped
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	if try == tries || ctx.Err() != nil {
		return nil, err
	}
	ddb.Sleep(ctx, pause<<(try-1))
	return rest, nil
}

// isUnanswered reports by the error of a change whether it may or may not have been made, or was not tried.
// Such a change is tried again.
func isUnanswered(err error) bool {
	return errors.Is(err, dynalimit.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// settleChange counts a change as made if err is nil, else records its failure. Invalid input puts it into
// a.waiting for the next round, unless this is the last. If the table or its namespace cannot be changed, it
// returns err, which ends the whole apply.
func (a *applying) settleChange(c Change, err error) error {
	var namespace *fault.NamespaceError
	if errors.Is(err, fault.ErrTable) || errors.Is(err, fault.ErrVersion) || errors.As(err, &namespace) {
		return err
	}
	var invalid *dynalimit.ValidationError
	if errors.As(err, &invalid) && !a.ending {
		a.waiting = append(a.waiting, c) // it may succeed once others have moved, joined a group or gone
		return nil
	}
	if err == nil {
		a.tried++
		a.out.Done++
		return nil
	}
	a.failChange(c, errors.Is(err, admin.ErrConflict), err.Error(), err)
	return nil
}

// way makes changes of one kind and returns an error for each. An item that already has the
// intended state counts as made.
type way func(context.Context, []Change) []error

// methodOf returns the method that makes changes of the same kind as like: changes of sources, or creations,
// deletions or updates of records.
func (a *applying) methodOf(like Change) way {
	switch {
	case like.Scope != nil:
		return a.applySources
	case like.Action == Create:
		return a.createEntities
	case like.Action == Delete:
		return a.deleteEntities
	}
	return a.updateRecords
}

// makeSingly calls do for each change in order and returns an error for each. After a change without an answer
// it does not try the rest, and gives them the same error.
func makeSingly(changes []Change, do func(Change) error) []error {
	errs := make([]error, len(changes))
	for i, c := range changes {
		if errs[i] = do(c); isUnanswered(errs[i]) {
			return append(errs[:i], sameError(errs[i], len(changes)-i)...)
		}
	}
	return errs
}

// mostDeletions is the number of concurrent deletions of entities. Each is a dozen requests in
// a row.
const mostDeletions = 16

// deleteEntities deletes entities with their sources and buckets, 16 at a time, and returns an error for each.
// Each deletion is made only if record and sources are as planned.
func (a *applying) deleteEntities(ctx context.Context, changes []Change) []error {
	errs := make([]error, len(changes))
	group := errgroup.Group{}
	group.SetLimit(mostDeletions)
	for i, c := range changes {
		group.Go(func() error {
			errs[i] = a.table.Entities.DeleteAsRead(ctx, c.record, c.sources)
			return nil
		})
	}
	_ = group.Wait() // errs has the errors
	return errs
}

// sameError returns err n times: one for each change of a batch.
func sameError(err error, n int) []error { return slices.Repeat([]error{err}, n) }

// retrySingly returns an error for each change of a try that failed as a whole with err. For invalid input it
// makes the changes again with do, one by one. Otherwise each change gets err.
func (a *applying) retrySingly(changes []Change, err error, do func([]Change) []error) []error {
	var invalid *dynalimit.ValidationError
	if len(changes) == 1 || !errors.As(err, &invalid) {
		return sameError(err, len(changes))
	}
	return makeSingly(changes, func(c Change) error { return do([]Change{c})[0] })
}

// applySources stores or deletes the configurations of sources, in transactions, and returns an error for each.
// A conflict with an equal stored configuration of the same manifest counts as made.
func (a *applying) applySources(ctx context.Context, changes []Change) []error {
	scoped := make([]admin.ScopedConfig, len(changes))
	for i, c := range changes {
		scoped[i] = admin.ScopedConfig{Scope: *c.Scope, Config: c.config, Delete: c.Action == Delete}
		scoped[i].Config.Only = true // the whole plan was checked
	}
	errs, err := a.table.Limits.SetConfigs(ctx, scoped)
	if err != nil {
		return a.retrySingly(changes, err, func(c []Change) []error { return a.applySources(ctx, c) })
	}
	for i, err := range errs {
		var conflict *admin.ConflictError[admin.ScopedConfig]
		if errors.As(err, &conflict) && conflict.Stored.Config.ManagedBy == changes[i].config.ManagedBy && sameSource(conflict.Stored.Config, changes[i].config) {
			errs[i] = nil
		}
	}
	return errs
}

// createEntities creates records of entities and returns an error for each. If a record exists, it counts as
// made if it equals the planned one, else as a conflict.
func (a *applying) createEntities(ctx context.Context, changes []Change) []error {
	setups := make([]admin.EntitySetup, len(changes))
	for i, c := range changes {
		setups[i].Entity = c.record
	}
	errs, err := a.table.Entities.CreateMany(ctx, setups)
	if err != nil {
		return a.retrySingly(changes, err, func(c []Change) []error { return a.createEntities(ctx, c) })
	}
	for i, err := range errs {
		if errors.Is(err, admin.ErrExists) {
			errs[i] = a.checkExisting(ctx, changes[i])
		}
	}
	return errs
}

// checkExisting reads the stored record of a change's entity. It returns nil if that equals the intended one,
// else a *admin.ConflictError or the error of the read.
func (a *applying) checkExisting(ctx context.Context, c Change) error {
	stored, err := a.table.Entities.GetMany(ctx, []string{c.Entity})
	if err == nil && !isAlreadyApplied(stored[0], c.record) {
		err = &admin.ConflictError[admin.Entity]{Yours: c.record, Stored: stored[0]}
	}
	return err
}

// isAlreadyApplied reports whether a stored record equals the intended one, so that a conflict with it counts
// as success. It is false for a record in deletion.
func isAlreadyApplied(stored, wanted admin.Entity) bool {
	return !stored.Deleting && stored.ManagedBy == wanted.ManagedBy && len(recordFields(stored, wanted)) == 0
}

// updateRecords changes records of entities, each on the condition of its version, and returns an error for
// each. A conflict with an equal stored record counts as made, and a missing record is a conflict.
func (a *applying) updateRecords(ctx context.Context, changes []Change) []error {
	records := make([]admin.Entity, len(changes))
	for i, c := range changes {
		records[i] = c.record
		records[i].Only = true // the whole plan was checked
	}
	errs, err := a.table.Entities.UpdateMany(ctx, records)
	if err != nil {
		return a.retrySingly(changes, err, func(c []Change) []error { return a.updateRecords(ctx, c) })
	}
	for i, err := range errs {
		var conflict *admin.ConflictError[admin.Entity]
		switch {
		case errors.As(err, &conflict) && isAlreadyApplied(conflict.Stored, records[i]):
			errs[i] = nil
		case errors.Is(err, admin.ErrNotFound):
			errs[i] = &admin.ConflictError[admin.Entity]{Yours: records[i], Stored: admin.Entity{ID: records[i].ID}}
		}
	}
	return errs
}
