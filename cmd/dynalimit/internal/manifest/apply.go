package manifest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Failure is a change that was not made.
type Failure struct {
	// What names the item, as Change.What does.
	What string `json:"what"`
	// Conflict says that somebody else changed the item since it was planned.
	Conflict bool `json:"conflict,omitempty"`
	// Error says why it was not made.
	Error string `json:"error"`
}

// Outcome is what an apply did.
type Outcome struct {
	// Done counts the changes that were made.
	Done int `json:"done"`
	// Failed are those that were not.
	Failed []Failure `json:"failed,omitempty"`
	// Left counts those that were not tried.
	Left int `json:"left"`
}

// Conflicts counts the changes that somebody else was in the way of.
func (o Outcome) Conflicts() (n int) {
	for _, f := range o.Failed {
		n += btoi(f.Conflict)
	}
	return n
}

const (
	// batch is how many changes are made before Ctrl-C and progress are looked at: two
	// transactions of levels.
	batch = 90
	// batchTime bounds a batch that is finished although the program is to end.
	batchTime = time.Minute
	// tries is how often a batch is tried while the table does not answer, with twice the
	// pause before each.
	tries = 6
	pause = 250 * time.Millisecond
)

// Apply makes the changes of a plan, in its order, each under the version that was planned:
// what somebody else changed meanwhile fails, and the others are made. A batch that has
// begun is finished when ctx ends; the rest is left. It fails with what keeps the table
// from being changed at all; whatever it returns, a new plan goes on from there.
func Apply(ctx context.Context, t Table, p Plan, progress func(done, total int)) (Outcome, error) {
	todo := slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.Action == Refuse })
	a := &applying{table: t, total: len(todo), progress: progress}
	moved := len(todo)
	if i := slices.IndexFunc(todo, func(c Change) bool { return c.step > stepMove }); i >= 0 {
		moved = i
	}
	for _, part := range []func() error{
		func() error { return a.all(ctx, todo[:moved]) },
		func() error { return a.again(ctx) },
		func() error { return a.all(ctx, todo[moved:]) },
		func() error { return a.last(ctx) },
	} {
		if err := part(); err != nil {
			return a.outcome(err)
		}
	}
	progress(a.total, a.total)
	return a.outcome(nil)
}

// all makes changes batch by batch.
func (a *applying) all(ctx context.Context, changes []Change) error {
	for _, chunk := range batches(changes) {
		if a.begun {
			a.progress(a.tried, a.total)
		}
		a.begun = true
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if chunk = a.free(chunk); len(chunk) == 0 {
			continue
		}
		if err := a.batch(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// batches cuts changes between steps, and long steps.
func batches(changes []Change) (out [][]Change) {
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && n < batch && changes[n].step == changes[0].step {
			n++
		}
		out, changes = append(out, changes[:n]), changes[n:]
	}
	return out
}

type applying struct {
	table    Table
	progress func(done, total int)
	begun    bool
	total    int
	tried    int
	out      Outcome
	second   []Change // moves that others were in the way of
	ending   bool     // nothing is left that could clear their way
	stuck    []stuck  // records that were not changed
	waiting  []Change // levels that limit those
}

func (a *applying) outcome(err error) (Outcome, error) {
	a.out.Left = a.total - a.out.Done - len(a.out.Failed)
	return a.out, err
}

// batch makes some changes of one kind. It is finished although ctx ends, unless the table
// does not answer.
func (a *applying) batch(ctx context.Context, changes []Change) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTime)
	defer cancel()
	for try := 1; ; try++ {
		errs := a.try(within, changes)
		var rest []Change
		var down error
		for i, err := range errs {
			if unanswered(err) {
				rest, down = append(rest, changes[i]), err
				continue
			}
			if stopped := a.settle(changes[i], err); stopped != nil {
				return stopped
			}
		}
		if len(rest) == 0 {
			return nil
		}
		if try == tries || ctx.Err() != nil {
			return down
		}
		ddb.Sleep(ctx, pause<<(try-1))
		changes = rest
	}
}

// unanswered says that a change may be made or not, or was not tried: it is tried again,
// and finds out which.
func unanswered(err error) bool {
	return errors.Is(err, dynalimit.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// settle counts a change. It returns the error that ends the whole apply.
func (a *applying) settle(c Change, err error) error {
	var namespace *dynalimit.NamespaceError
	if errors.Is(err, dynalimit.ErrTable) || errors.Is(err, dynalimit.ErrVersion) || errors.As(err, &namespace) {
		return err
	}
	var invalid *dynalimit.ValidationError
	if c.Action == Update && c.moves && errors.As(err, &invalid) && !a.ending {
		a.second = append(a.second, c) // once its old family has moved, or gone, it may fit
		return nil
	}
	a.tried++
	if err == nil {
		a.out.Done++
		return nil
	}
	conflict := errors.Is(err, dynalimit.ErrConflict)
	if c.Scope == nil && c.Action == Update {
		a.stuck = append(a.stuck, stuck{c, conflict})
	}
	a.out.Failed = append(a.out.Failed, Failure{What: c.What(), Conflict: conflict, Error: err.Error()})
	return nil
}

// again makes the moves that were refused while others were still to come.
func (a *applying) again(ctx context.Context) error {
	moves := a.second
	a.second = nil
	for _, c := range moves {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := a.batch(ctx, []Change{c}); err != nil {
			return err
		}
	}
	return nil
}

// last makes what had to wait for others, or says what it waits for.
func (a *applying) last(ctx context.Context) error {
	a.ending = true
	if err := a.again(ctx); err != nil {
		return err
	}
	levels := a.waiting
	a.waiting = nil
	return a.all(ctx, levels)
}

// try makes changes of one kind and returns an error for each. What is there already, as
// it was to be, is made.
func (a *applying) try(ctx context.Context, changes []Change) []error {
	switch {
	case changes[0].Scope != nil:
		return a.levels(ctx, changes)
	case changes[0].Action == Create:
		return a.creates(ctx, changes)
	case changes[0].Action == Delete:
		return oneByOne(changes, func(c Change) error { return a.delete(ctx, c) })
	case changes[0].moves: // parents first
		return oneByOne(changes, func(c Change) error { return a.updates(ctx, []Change{c})[0] })
	}
	return a.updates(ctx, changes)
}

// oneByOne does something for changes whose order matters: after one that was not answered
// the rest waits as well.
func oneByOne(changes []Change, do func(Change) error) []error {
	errs := make([]error, len(changes))
	for i, c := range changes {
		if errs[i] = do(c); unanswered(errs[i]) {
			return append(errs[:i], same(errs[i], len(changes)-i)...)
		}
	}
	return errs
}

func same(err error, n int) []error { return slices.Repeat([]error{err}, n) }

// alone makes changes one by one of which the input of some was refused, and so of all.
func (a *applying) alone(changes []Change, err error, do func([]Change) []error) []error {
	var invalid *dynalimit.ValidationError
	if len(changes) == 1 || !errors.As(err, &invalid) {
		return same(err, len(changes))
	}
	return oneByOne(changes, func(c Change) error { return do([]Change{c})[0] })
}

func (a *applying) levels(ctx context.Context, changes []Change) []error {
	scoped := make([]dynalimit.ScopedConfig, len(changes))
	for i, c := range changes {
		scoped[i] = dynalimit.ScopedConfig{Scope: *c.Scope, Config: c.config, Delete: c.Action == Delete}
	}
	errs, err := a.table.SetConfigs(ctx, scoped)
	if err != nil {
		return a.alone(changes, err, func(c []Change) []error { return a.levels(ctx, c) })
	}
	for i, err := range errs {
		var conflict *dynalimit.ConfigConflictError
		if errors.As(err, &conflict) && conflict.Stored.ManagedBy == changes[i].config.ManagedBy && sameLevel(conflict.Stored, changes[i].config) {
			errs[i] = nil
		}
	}
	return errs
}

func (a *applying) creates(ctx context.Context, changes []Change) []error {
	setups := make([]dynalimit.EntitySetup, len(changes))
	for i, c := range changes {
		setups[i].Entity = c.record
	}
	errs, err := a.table.CreateEntities(ctx, setups)
	if err != nil {
		return a.alone(changes, err, func(c []Change) []error { return a.creates(ctx, c) })
	}
	for i, err := range errs {
		if errors.Is(err, dynalimit.ErrExists) {
			errs[i] = a.exists(ctx, changes[i])
		}
	}
	return errs
}

// exists is the error of a record that was to be made and is there; nil if it is the one.
func (a *applying) exists(ctx context.Context, c Change) error {
	stored, err := a.table.GetEntities(ctx, []string{c.Entity})
	if err == nil && !isRecord(stored[0], c.record) {
		err = &dynalimit.EntityConflictError{Yours: c.record, Stored: stored[0]}
	}
	return err
}

// isRecord says whether a stored record is the one that was to be stored.
func isRecord(stored, wanted dynalimit.Entity) bool {
	return !stored.Deleting && stored.ManagedBy == wanted.ManagedBy && len(recordFields(stored, wanted)) == 0
}

func (a *applying) updates(ctx context.Context, changes []Change) []error {
	records := make([]dynalimit.Entity, len(changes))
	for i, c := range changes {
		records[i] = c.record
	}
	errs, err := a.table.UpdateEntities(ctx, records)
	if err != nil {
		return a.alone(changes, err, func(c []Change) []error { return a.updates(ctx, c) })
	}
	for i, err := range errs {
		var conflict *dynalimit.EntityConflictError
		switch {
		case errors.As(err, &conflict) && isRecord(conflict.Stored, records[i]):
			errs[i] = nil
		case errors.Is(err, dynalimit.ErrNotFound):
			errs[i] = &dynalimit.EntityConflictError{Yours: records[i], Stored: dynalimit.Entity{ID: records[i].ID}}
		}
	}
	return errs
}

// delete removes an entity if its record is the one that was planned on. One whose
// deletion has begun is finished.
func (a *applying) delete(ctx context.Context, c Change) error {
	stored, err := a.table.GetEntities(ctx, []string{c.Entity})
	if err != nil {
		return err
	}
	e := stored[0]
	switch {
	case !recorded(e):
		return nil
	case !e.Deleting && (e.Version != c.record.Version || e.ManagedBy != c.record.ManagedBy):
		return &dynalimit.EntityConflictError{Yours: c.record, Stored: e}
	}
	return a.table.DeleteEntity(ctx, c.Entity)
}
