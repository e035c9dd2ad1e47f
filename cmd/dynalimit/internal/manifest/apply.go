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
	// Conflict says that somebody else changed the item since it was planned.
	Conflict bool `json:"conflict,omitempty"`
	// Error says why it was not made.
	Error string `json:"error"`
	// Err is the library's error; nil for a change that waits for another.
	Err error `json:"-"`
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
	// tryTime bounds a try of a batch, which is finished although the program is to end.
	tryTime = time.Minute
	// tries is how often a batch is tried while the table does not answer, with twice the
	// pause before each.
	tries = 6
	pause = 250 * time.Millisecond
)

// Apply makes the changes of a plan, in its order, each under the version that was planned:
// what somebody else changed meanwhile fails, and so does what must not go without it; the
// others are made. A batch that has begun is finished when ctx ends; the rest is left. It
// fails with what keeps the table from being changed at all; whatever it returns, a new
// plan goes on from there.
func Apply(ctx context.Context, t Table, p Plan, progress func(done, total int)) (Outcome, error) {
	todo := slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.Action == Refuse })
	a := &applying{table: t, total: len(todo)}
	for len(todo) > 0 {
		a.waiting = nil
		for _, chunk := range batches(todo) {
			if a.tried > 0 {
				progress(a.tried, a.total)
			}
			if err := context.Cause(ctx); err != nil {
				return a.outcome(err)
			}
			if chunk = a.ready(chunk); len(chunk) == 0 {
				continue
			}
			do := a.way(chunk[0])
			for try := 1; len(chunk) > 0; try++ { // it is finished although ctx ends, unless the table does not answer
				within, cancel := context.WithTimeout(context.WithoutCancel(ctx), tryTime)
				errs := do(within, chunk)
				cancel()
				var err error
				if chunk, err = a.unsettled(ctx, chunk, errs, try); err != nil {
					return a.outcome(err)
				}
			}
		}
		a.ending = len(a.waiting) == len(todo) // nothing is left that could clear their way
		todo = a.waiting
	}
	progress(a.total, a.total)
	return a.outcome(nil)
}

// batches cuts changes between steps, between generations of entities that go, between
// entities that move, parents first, and long steps.
func batches(changes []Change) (out [][]Change) {
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
	waiting []Change // for others, for the next time round
	ending  bool     // the last time round: nothing waits any more
}

func (a *applying) outcome(err error) (Outcome, error) {
	a.out.Left = a.total - a.out.Done - len(a.out.Failed)
	return a.out, err
}

// unsettled counts the changes of a try, and returns those that were not answered, after a
// pause. It fails with what ends the whole apply.
func (a *applying) unsettled(ctx context.Context, changes []Change, errs []error, try int) (rest []Change, err error) {
	for i, e := range errs {
		if unanswered(e) {
			rest, err = append(rest, changes[i]), e
			continue
		}
		if stopped := a.settle(changes[i], e); stopped != nil {
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

// unanswered says that a change may be made or not, or was not tried: it is tried again,
// and finds out which.
func unanswered(err error) bool {
	return errors.Is(err, dynalimit.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// settle counts a change. It returns the error that ends the whole apply.
func (a *applying) settle(c Change, err error) error {
	var namespace *fault.NamespaceError
	if errors.Is(err, fault.ErrTable) || errors.Is(err, fault.ErrVersion) || errors.As(err, &namespace) {
		return err
	}
	var invalid *dynalimit.ValidationError
	if errors.As(err, &invalid) && !a.ending {
		a.waiting = append(a.waiting, c) // once others have moved, joined a group, or gone, it may fit
		return nil
	}
	if err == nil {
		a.tried++
		a.out.Done++
		return nil
	}
	a.fail(c, errors.Is(err, admin.ErrConflict), err.Error(), err)
	return nil
}

// way makes changes of one kind and returns an error for each. What is there already, as it
// was to be, is made.
type way func(context.Context, []Change) []error

// way is that in which changes like one are made.
func (a *applying) way(like Change) way {
	switch {
	case like.Scope != nil:
		return a.levels
	case like.Action == Create:
		return a.creates
	case like.Action == Delete:
		return a.deletes
	}
	return a.updates
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

// mostDeletions is how many entities are deleted at once: each is a dozen requests in a row.
const mostDeletions = 16

func (a *applying) deletes(ctx context.Context, changes []Change) []error {
	errs := make([]error, len(changes))
	group := errgroup.Group{}
	group.SetLimit(mostDeletions)
	for i, c := range changes {
		group.Go(func() error {
			errs[i] = a.table.Entities.DeleteAsRead(ctx, c.record, c.levels)
			return nil
		})
	}
	_ = group.Wait() // each has its error
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
	scoped := make([]admin.ScopedConfig, len(changes))
	for i, c := range changes {
		scoped[i] = admin.ScopedConfig{Scope: *c.Scope, Config: c.config, Delete: c.Action == Delete}
		scoped[i].Config.Only = true // the whole plan was checked
	}
	errs, err := a.table.Limits.SetConfigs(ctx, scoped)
	if err != nil {
		return a.alone(changes, err, func(c []Change) []error { return a.levels(ctx, c) })
	}
	for i, err := range errs {
		var conflict *admin.ConflictError[admin.ScopedConfig]
		if errors.As(err, &conflict) && conflict.Stored.Config.ManagedBy == changes[i].config.ManagedBy && sameLevel(conflict.Stored.Config, changes[i].config) {
			errs[i] = nil
		}
	}
	return errs
}

func (a *applying) creates(ctx context.Context, changes []Change) []error {
	setups := make([]admin.EntitySetup, len(changes))
	for i, c := range changes {
		setups[i].Entity = c.record
	}
	errs, err := a.table.Entities.CreateMany(ctx, setups)
	if err != nil {
		return a.alone(changes, err, func(c []Change) []error { return a.creates(ctx, c) })
	}
	for i, err := range errs {
		if errors.Is(err, admin.ErrExists) {
			errs[i] = a.exists(ctx, changes[i])
		}
	}
	return errs
}

// exists is the error of a record that was to be made and is there; nil if it is the one.
func (a *applying) exists(ctx context.Context, c Change) error {
	stored, err := a.table.Entities.GetMany(ctx, []string{c.Entity})
	if err == nil && !isRecord(stored[0], c.record) {
		err = &admin.ConflictError[admin.Entity]{Yours: c.record, Stored: stored[0]}
	}
	return err
}

// isRecord says whether a stored record is the one that was to be stored.
func isRecord(stored, wanted admin.Entity) bool {
	return !stored.Deleting && stored.ManagedBy == wanted.ManagedBy && len(recordFields(stored, wanted)) == 0
}

func (a *applying) updates(ctx context.Context, changes []Change) []error {
	records := make([]admin.Entity, len(changes))
	for i, c := range changes {
		records[i] = c.record
		records[i].Only = true // the whole plan was checked
	}
	errs, err := a.table.Entities.UpdateMany(ctx, records)
	if err != nil {
		return a.alone(changes, err, func(c []Change) []error { return a.updates(ctx, c) })
	}
	for i, err := range errs {
		var conflict *admin.ConflictError[admin.Entity]
		switch {
		case errors.As(err, &conflict) && isRecord(conflict.Stored, records[i]):
			errs[i] = nil
		case errors.Is(err, admin.ErrNotFound):
			errs[i] = &admin.ConflictError[admin.Entity]{Yours: records[i], Stored: admin.Entity{ID: records[i].ID}}
		}
	}
	return errs
}
