package plan

import "slices"

// Decision is a decided write.
type Decision struct {
	// View is the view from which the write was decided, and Rows the change of each limit.
	View View
	Rows Rows
	// Write is the write. Its kind is Nothing if nothing has to be written.
	Write Write
	// Excluded are the takes that do not fit.
	Excluded []Excluded
	// Carried counts the asks that the write carries, admitted only the takes.
	Carried, admitted int
	// prefetches means that some takes debit ahead, and interactive that the write carries a take that is no batch
	// call's.
	prefetches, interactive bool
	// refusals is the highest number of refusals of an ask that the write carries.
	refusals int
}

// Excluded is a take that does not fit, by its index among the asks, with the precedence before it.
type Excluded struct {
	Ask    int
	Before Precedence
}

// laterAfter is the number of refusals after which an adjust is written so that it commutes
// with claims.
const laterAfter = 2

// Decide returns one write that carries the asks that fit, and sets each ask's fate and parts in Down, Unbound
// and Dropped. Adjusts must come before takes, and batch calls last; takes are admitted in order. With
// rules.Halvings it takes only a share of the tokens; room is space for the rows.
func Decide(v View, asks []*Ask, room Rows, rules Rules) Decision {
	d := Admit(v, asks, room, rules)
	if d.prefetches {
		d.admitAhead(asks, rules)
	}
	if d.Carried == 0 {
		return d
	}
	rules.Crowding.Refused = min(rules.Crowding.Refused, d.refusals) // asks that were never refused are in no hurry
	if d.Carried == d.admitted && v.Config.Shadow == 0 {             // takes are not written down
		d.Write = v.decideWrite(d.Rows, rules)
		return d
	}
	down := d.Rows.writeDown()
	rules.Later = d.admitted == 0 && d.refusals >= laterAfter && !d.Rows.boundsDebt()
	d.Write = v.decideWrite(d.Rows, rules)
	for _, a := range asks {
		if !a.Take && a.Fate == Carried {
			a.Dropped = d.Rows.Missing(a.Amounts)
			down = a.writeDown(down)
		}
	}
	return d
}

// Admit sets the fates of the asks and returns the rows of the carried ones, as Decide does, but decides no
// write. It gives takes that debit ahead no fate and only marks that there are some. room is space for the
// rows.
func Admit(v View, asks []*Ask, room Rows, rules Rules) Decision {
	d := Decision{View: v, Rows: v.Rows(room.With(asks...), nil)}
	ahead := d.Rows // with the amounts of deferred takes
	deferred := false
	for i, a := range asks {
		if a.Prefetch {
			d.prefetches = true
			continue
		}
		if a.Fate, a.Limit = d.fateOf(i, a, ahead, rules); a.Fate == Deferred && !deferred {
			ahead, deferred = slices.Clone(d.Rows), true
		}
		if a.Fate == Carried {
			d.carryAsk(a)
		}
		if deferred && (a.Fate == Carried || a.Fate == Deferred) {
			a.AddTo(ahead)
		}
	}
	return d
}

// fateOf returns the fate of ask i after the asks before it, and the limit if it is Unknown or TooDeep. ahead
// has the sums so far, deferred takes included. It sets the take's parts in shadow, and adds a denied take to
// d.Excluded.
func (d *Decision) fateOf(i int, a *Ask, ahead Rows, rules Rules) (fate Fate, limit string) {
	if !a.Take {
		if limit = d.Rows.tooDeep(a.Amounts, d.View.Image); limit != "" {
			return TooDeep, limit
		}
		return Carried, ""
	}
	var left Promises
	if rules.Left != nil {
		left = rules.Left(i)
	}
	fits := ahead.Fit(a.Amounts, left, a.Batch)
	if !fits {
		if missing := d.Rows.Missing(a.Amounts); missing != nil {
			return Unknown, missing[0]
		}
	}
	a.Unbound, a.Down = nil, nil
	if d.View.Config.Shadow != 0 {
		a.Unbound, a.Down = ahead.splitShadow(a.Amounts)
	}
	switch {
	case !fits:
		d.Excluded = append(d.Excluded, Excluded{i, Precedence{Taken: ahead.Taken(), Left: left}})
		return Denied, ""
	case rules.Halvings > 0 && d.admitted > 0 && !d.Rows.isModest(a.Amounts, rules.Halvings):
		return Deferred, ""
	case a.Batch && d.interactive && d.leavesBatch(a):
		return Deferred, ""
	}
	return Carried, ""
}

// carryAsk adds the amounts of a carried ask to d.Rows, and counts the ask, its refusals and, for a take, its
// class.
func (d *Decision) carryAsk(a *Ask) {
	d.Carried++
	if a.Take {
		d.admitted++
		d.interactive = d.interactive || !a.Batch
	}
	d.refusals = max(d.refusals, a.Refusals)
	a.AddTo(d.Rows)
}

// admitAhead sets the fates of the takes that debit ahead of calls, and carries the admitted ones. It admits
// them only if every limit stays half full, without waiters, and if no other take was denied, deferred or
// refused. The others become NotAhead, or Unknown with the missing limit.
func (d *Decision) admitAhead(asks []*Ask, rules Rules) {
	alone := rules.Left == nil && rules.Halvings == 0 && d.View.Image != nil && !d.View.Adopt && !slices.ContainsFunc(asks, (*Ask).isContended)
	for _, a := range asks {
		if !a.Prefetch {
			continue
		}
		if missing := d.Rows.Missing(a.Amounts); missing != nil {
			a.Fate, a.Limit = Unknown, missing[0]
			continue
		}
		if a.Fate = NotAhead; alone && d.Rows.leaveHalf(a.Amounts) {
			a.Fate = Carried
			a.Unbound, a.Down = d.Rows.splitShadow(a.Amounts)
			d.carryAsk(a)
		}
	}
}

// isContended reports whether a take for a call was denied or deferred, or is carried after a refused write. It
// is false for adjusts and for takes ahead of calls.
func (a *Ask) isContended() bool {
	return a.Take && !a.Prefetch && (a.Fate == Denied || a.Fate == Deferred || a.Fate == Carried && a.Refusals > 0)
}

// writeDown sets a.Down to the ask's part of down, the charges that Rows.writeDown moved from the tokens to the
// counters. It returns the rest, for the other adjusts of the write.
func (a *Ask) writeDown(down []Signed) (left []Signed) {
	a.Down = nil
	for _, d := range down {
		amount, _ := AmountOf(a.Amounts, d.Name)
		if n := max(0, min(amount, d.Amount)); n > 0 {
			a.Down = append(a.Down, Signed{Name: d.Name, Amount: n})
			d.Amount -= n
		}
		if d.Amount > 0 {
			left = append(left, d)
		}
	}
	return left
}

// leavesBatch reports whether a write that carries interactive takes leaves a batch call's take, which would fit, for
// the next write. It does so where the bound of the batch call may well refuse the write: it was refused before, or it
// would leave less than a tenth of a burst above the reserve. The next write carries the take in any case.
func (d *Decision) leavesBatch(a *Ask) bool {
	refusals := max(d.refusals, a.Refusals)
	return a.Postponed <= refusals && (refusals > 0 || d.Rows.areTight(a.Amounts))
}
