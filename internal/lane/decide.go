package lane

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// move is what is decided of a turn: a write, and what it carries. A value.
type move struct {
	// view is what the write was decided from, sums what it does to each limit, and carried
	// are its ops.
	view    plan.View
	sums    plan.Rows
	carried []*Op
	// write is what is written; giveBack is, if its kind is GiveBack.
	write    plan.Write
	giveBack schema.GiveBack
	// adjusts means that it carries adjusts. givesBack means that something is given back.
	adjusts, givesBack bool
	// brings means that the write only brings a newer configuration to takes that do not
	// fit, and contains nothing of theirs.
	brings bool
}

// facts are what a turn is decided from: a value, which is not changed.
type facts struct {
	// adjusts and takes are what the write may carry; sums are those of the adjusts.
	adjusts, takes []*Op
	sums           plan.Rows
	// view is the bucket under the configuration in force, known what else is known of it,
	// and heads are the waiters at the head of its line.
	view  plan.View
	known sight
	heads []head
	// looked means that the bucket was read just now, because others take from it.
	looked bool
	// shareHalvings is how often the share that one write takes was halved, and mayHousekeep
	// allows a claim whose only reason is the age of the refill instant.
	shareHalvings int
	mayHousekeep  bool
}

// decided is what becomes of the ops of a turn. A value: whoever has it does what it says.
type decided struct {
	endings
	// again are left for the next write, which is decided from the answer to this one.
	again []*Op
	// left do not fit, and the write carries nothing: they are denied, if that is certain.
	left []excluded
	// move is the write; it carries nothing if there is none.
	move move
}

// endings are ops that end, with their results.
type endings struct {
	ends []ending
	// lost are the waiters whose try came, and others were first.
	lost []*Waiter
}

// ending ends ops with a result.
type ending struct {
	ops    []*Op
	result Result
}

func (e *endings) end(ops []*Op, r Result) {
	if len(ops) > 0 {
		e.ends = append(e.ends, ending{ops, r})
	}
}

// deny denies takes that do not fit a view.
func (e *endings) deny(v plan.View, unfit []excluded) {
	for _, x := range unfit {
		e.end([]*Op{x.op}, denial(v, x))
	}
}

// lose notes that others were first, of the waiters whose takes do not fit.
func (e *endings) lose(unfit []excluded) {
	for _, x := range unfit {
		if x.op.Waiter != nil {
			e.lost = append(e.lost, x.op.Waiter)
		}
	}
}

// decide decides a turn. It is pure, and the only place where it is decided what a write
// carries: takes of limits that are gone end, and adjusts into a debt that cannot be stored;
// then what fits is carried in its order, and the rest is denied or left for the next write.
func decide(f facts) (d decided) {
	f.sums = rowsOf(f.view, f.sums, f.takes)
	takes := d.endUnknownLimits(f)
	adjusts, sums := f.adjusts, f.sums
	if len(adjusts) > 0 {
		adjusts, sums = d.refuseDebt(f)
	}
	if f.looked {
		takes = d.denyAsSeen(f, adjusts, takes)
	}
	if len(adjusts)+len(takes) == 0 {
		return d
	}
	c := choose(&f.known, f.view, choices{
		adjusts: adjusts, takes: takes, sums: sums, heads: f.heads, shareHalvings: f.shareHalvings, mayHousekeep: f.mayHousekeep,
	})
	if len(c.dropped) > 0 {
		d.end(c.dropped, Result{Denied: true})
	}
	if len(c.carried) == 0 {
		d.left = c.left
		return d
	}
	if len(c.deferred)+len(c.left) > 0 {
		d.postpone(f, c)
	}
	for _, o := range adjusts {
		o.noteDropped(f.view)
		c.down = o.writeDown(c.down)
	}
	if c.write.Kind == plan.Nothing {
		d.end(c.carried, Result{Image: f.view.Image, Now: f.view.Now, Config: f.view.Config})
		return d
	}
	d.move = move{
		view: f.view, sums: c.sums, carried: c.carried, write: c.write, adjusts: len(adjusts) > 0,
		givesBack: len(adjusts) > 0 && c.sums.HasBack() && c.write.Kind != plan.Create,
	}
	return d
}

// rowsOf returns the rows of a decision: those of the sums, and of the limits of ops.
func rowsOf(v plan.View, rows plan.Rows, ops []*Op) plan.Rows {
	for _, o := range ops {
		for _, a := range o.Amounts {
			rows.At(a.Name)
		}
		for _, a := range o.late {
			rows.At(a.Name)
		}
	}
	return v.Rows(rows, nil)
}

// endUnknownLimits ends the takes whose limits are neither in the bucket nor in the
// configuration in force. It returns the others.
func (d *decided) endUnknownLimits(f facts) []*Op {
	if !slices.ContainsFunc(f.takes, func(o *Op) bool { return f.sums.Missing(o.Amounts) != "" }) {
		return f.takes
	}
	var known []*Op
	for _, o := range f.takes {
		if missing := f.sums.Missing(o.Amounts); missing != "" {
			d.end([]*Op{o}, Result{Err: &Failure{Reason: Outdated, Limit: missing}})
		} else {
			known = append(known, o)
		}
	}
	return known
}

// refuseDebt ends the adjusts that would put the bucket deeper into debt than it can
// store. It returns the others with their sums.
func (d *decided) refuseDebt(f facts) ([]*Op, plan.Rows) {
	if f.sums.TooDeep(f.view.Image) == "" {
		return f.adjusts, f.sums
	}
	kept, fit := make([]*Op, 0, len(f.adjusts)), rowsOf(f.view, nil, slices.Concat(f.adjusts, f.takes))
	for _, o := range f.adjusts {
		with := append(plan.Rows{}, fit...)
		o.addTo(&with)
		if name := with.TooDeep(f.view.Image); name != "" {
			d.end([]*Op{o}, Result{Err: &Failure{Reason: TooDeep, Limit: name}})
			continue
		}
		kept, fit = append(kept, o), with
	}
	return kept, fit
}

// denyAsSeen denies the takes that did not fit at the instant when the bucket was read, and
// returns the others. The refill during the read would make room in half of the reads, and
// the write would then be refused.
func (d *decided) denyAsSeen(f facts, adjusts, takes []*Op) []*Op {
	v := f.view
	if v.Adopt || v.Image == nil || !v.Config.Wrote(v.Image) {
		return takes
	}
	v.Now = f.known.seenAt
	fit, unfit := fitting(v, slices.Concat(adjusts, takes), f.heads)
	d.deny(v, unfit)
	d.lose(unfit)
	return fit[len(adjusts):]
}

// postpone leaves takes for the next write, which is decided from the answer to this
// one. A take that was left once already, and does not fit a recent image beside those
// before it, is denied: a caller of Acquire does not wait in line.
func (d *decided) postpone(f facts, c decision) {
	d.again = c.deferred
	for _, o := range d.again {
		o.postponed++
	}
	var unfit []excluded
	recent := f.known.fresh(f.view.Now) && !f.view.Adopt
	for _, x := range c.left {
		if !recent || x.op.postponed == 0 && x.op.refusals == 0 {
			x.op.postponed++
			d.again = append(d.again, x.op)
			continue
		}
		unfit = append(unfit, x)
	}
	d.deny(f.view, unfit)
}

// denial is the result of a take that does not fit a view.
func denial(v plan.View, x excluded) Result {
	return Result{Denied: true, Image: v.Image, Now: v.Now, Config: v.Config, Before: x.precedence}
}

// fitting tells the ops that fit a view in their order from the takes that do not.
func fitting(v plan.View, ops []*Op, heads []head) (fit []*Op, unfit []excluded) {
	s := rowsOf(v, nil, ops)
	var waiters []*Waiter
	fit = make([]*Op, 0, len(ops))
	for _, o := range ops {
		if o.take {
			if left := promised(heads, o.Rank, waiters, v.Reading()); !s.Fit(o.Amounts, left) {
				unfit = append(unfit, excluded{o, plan.Precedence{Taken: s.Taken(), Left: left}})
				continue
			}
		}
		o.addTo(&s)
		if o.Waiter != nil {
			waiters = append(waiters, o.Waiter)
		}
		fit = append(fit, o)
	}
	return fit, unfit
}
