package lane

import (
	"github.com/dynalimit/dynalimit/internal/plan"
)

// move is the decision of a turn: a write, and the ops that it carries. A value.
type move struct {
	// view is the basis of the write, rows its effect on each limit. carried are its ops, adjusts
	// first.
	view    plan.View
	rows    plan.Rows
	carried []*Op
	write   plan.Write
	// adjusts means that it carries adjusts. givesBack means that it gives tokens back.
	adjusts, givesBack bool
	// brings means that the write only brings a newer configuration to takes that do not fit, without
	// any of their amounts.
	brings bool
}

// facts are the input of a turn's decision: a value, which is not changed.
type facts struct {
	// adjusts and takes are the ops that the write may carry. room is for its rows.
	adjusts, takes []*Op
	room           plan.Rows
	// view is the bucket under the configuration in force, and known the lane's sight of it. heads are
	// the waiters at the head of its line.
	view  plan.View
	known sight
	heads []head
	// looked means that the bucket was read just now, because other processes use it.
	looked bool
	// shareHalvings is how often the share of one write was halved. mayHousekeep allows a claim only
	// because the refill instant is old.
	shareHalvings int
	mayHousekeep  bool
}

// excluded is a take that does not fit, with the amounts that go before it.
type excluded struct {
	op         *Op
	precedence plan.Precedence
}

// decided is the decision about the ops of a turn. A value: the turn carries it out.
type decided struct {
	endings
	// again are the ops left for the next write, which is decided from the answer to this one.
	again []*Op
	// left are the takes that do not fit, if the write carries nothing. They are denied, if that is
	// certain.
	left []excluded
	// move is the write; carried is empty if there is nothing to write.
	move move
}

// endings are ops that end, with their results.
type endings struct {
	ends []ending
	// lost are the waiters that tried, but other processes were first.
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

// lose adds the waiters of takes that do not fit: other processes were first.
func (e *endings) lose(unfit []excluded) {
	for _, x := range unfit {
		if x.op.Waiter != nil {
			e.lost = append(e.lost, x.op.Waiter)
		}
	}
}

// decide decides a turn. It is pure. plan.Decide chooses the ops of the write. Takes of removed limits,
// and adjusts into a debt that cannot be stored, end. The rest is carried, denied, or left for the next
// write.
func decide(f facts) (d decided) {
	if f.looked {
		f.takes = d.denyAsSeen(f)
	}
	b := batch{f.adjusts, f.takes}
	ops := b.ops()
	if len(ops) == 0 {
		return d
	}
	var room [8]*plan.Ask
	rules := plan.Rules{Tidy: f.mayHousekeep, Halvings: f.shareHalvings, Crowding: f.known.crowding}
	if len(f.heads) > 0 {
		rules.Left = leftTo(f.heads, ops, f.view.Reading())
	}
	c, carried := plan.Decide(f.view, asksOf(room[:0], ops), f.room, rules), ops
	if c.Carried < len(ops) {
		carried = d.sort(ops)
		left := excludedOf(ops, c.Excluded)
		if c.Carried == 0 {
			d.left = left
			return d
		}
		d.postpone(f, left)
	}
	if c.Write.Kind == plan.Nothing {
		d.end(carried, Result{Image: f.view.Image, Now: f.view.Now, Config: f.view.Config})
		return d
	}
	d.move = move{
		view: f.view, rows: c.Rows, carried: carried, write: c.Write, adjusts: !carried[0].Take,
		givesBack: !carried[0].Take && c.Rows.HasBack() && c.Write.Kind != plan.Create,
	}
	return d
}

// sort ends the ops that cannot be carried, and puts off those for the next write. It returns the
// carried ones.
func (d *decided) sort(ops []*Op) (carried []*Op) {
	for _, o := range ops {
		switch o.Fate {
		case plan.Carried:
			carried = append(carried, o)
		case plan.Unknown:
			d.end([]*Op{o}, Result{Err: &Failure{Reason: Outdated, Limit: o.Limit}})
		case plan.TooDeep:
			d.end([]*Op{o}, Result{Err: &Failure{Reason: TooDeep, Limit: o.Limit}})
		case plan.NotAhead:
			d.end([]*Op{o}, Result{Denied: true})
		case plan.Deferred:
			o.postponed++
			d.again = append(d.again, o)
		case plan.Denied:
		}
	}
	return carried
}

// leftTo returns the amounts that each op must leave to the heads of the line with a lower rank,
// without the heads that the write carries.
func leftTo(heads []head, ops []*Op, r plan.Reading) func(i int) plan.Promises {
	return func(i int) plan.Promises {
		var carried []*Waiter
		for _, o := range ops[:i] {
			if o.Waiter != nil && o.Fate == plan.Carried {
				carried = append(carried, o.Waiter)
			}
		}
		return promised(heads, ops[i].Rank, carried, r)
	}
}

// excludedOf converts the excluded asks of a decision to their ops.
func excludedOf(ops []*Op, from []plan.Excluded) (unfit []excluded) {
	for _, x := range from {
		unfit = append(unfit, excluded{ops[x.Ask], x.Before})
	}
	return unfit
}

// denyAsSeen denies the takes that did not fit at the instant when the bucket was read, and
// returns the others. The refill during the read would make room in half of the reads, and
// the write would then be refused.
func (d *decided) denyAsSeen(f facts) (takes []*Op) {
	v := f.view
	if v.Adopt || v.Image == nil || !v.Config.Wrote(v.Image) {
		return f.takes
	}
	v.Now = f.known.seenAt
	b := batch{f.adjusts, f.takes}
	fit, unfit := fitting(v, b.ops(), f.heads)
	d.deny(v, unfit)
	d.lose(unfit)
	return fit[len(f.adjusts):]
}

// postpone leaves takes that do not fit for the next write, which is decided from the answer to this
// one. A take is denied if it was postponed once and does not fit a recent image next to those before
// it: a caller of Acquire does not wait in line.
func (d *decided) postpone(f facts, left []excluded) {
	var unfit []excluded
	recent := f.known.fresh(f.view.Now) && !f.view.Adopt
	for _, x := range left {
		if !recent || x.op.postponed == 0 && x.op.Refusals == 0 {
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

// fitting separates the ops that fit a view, in their order, from the takes that do not.
func fitting(v plan.View, ops []*Op, heads []head) (fit []*Op, unfit []excluded) {
	var room [8]*plan.Ask
	var rules plan.Rules
	if len(heads) > 0 {
		rules.Left = leftTo(heads, ops, v.Reading())
	}
	c := plan.Admit(v, asksOf(room[:0], ops), nil, rules)
	for _, o := range ops {
		if o.Fate != plan.Denied {
			fit = append(fit, o)
		}
	}
	return fit, excludedOf(ops, c.Excluded)
}
