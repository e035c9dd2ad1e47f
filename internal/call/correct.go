package call

import (
	"context"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Target returns the amounts, in millitokens, that change makes of the lease's present use, for a correction;
// ends means that the lease ends. It refuses bad amounts, unknown limits, and a change of slots unless the
// lease ends. It reads the configuration if a limit is not known; held is locked and released meanwhile.
func (c *Call) Target(ctx context.Context, change func(consumed []plan.Signed) []plan.Signed, ends bool, held sync.Locker) ([]plan.Signed, error) {
	target := change(c.consumed)
	unknown := (!c.whole || len(target) > len(c.consumed)) && slices.ContainsFunc(target, func(a plan.Signed) bool { return !c.levels.has(a.Name) })
	if unknown || c.renewed {
		c.recogniseLimits(ctx, target, held)
		target = c.knownAmounts(target)
	}
	if c.slots {
		var err error
		if target, err = c.levels.changeSlots(c.consumed, target, ends); err != nil {
			return nil, err
		}
	}
	return target, c.checkTarget(target, unknown)
}

// TargetNow returns the amounts, in millitokens, that change makes of the lease's use when it ends, and 0 for
// slots. It refuses bad amounts and unknown limits, and reads nothing.
func (c *Call) TargetNow(change func(consumed []plan.Signed) []plan.Signed) ([]plan.Signed, error) {
	target := change(c.consumed)
	if c.slots {
		target, _ = c.levels.changeSlots(c.consumed, target, true)
	}
	target = c.knownAmounts(target)
	return target, c.checkTarget(target, true)
}

// Correct writes the difference to a target at every level. final means that no further correction follows, and
// ends that the lease ends. done means that the target is the call's use now and the caller need not repeat it,
// though it is perhaps unconfirmed; err is a reason, and held is released meanwhile.
func (c *Call) Correct(ctx context.Context, target []plan.Signed, final, ends bool, held sync.Locker) (done bool, err error) {
	if len(c.levels) == 0 && c.IsUnlocated() {
		was := c.consumed
		err := c.locateLevels(ctx, held)
		if err != nil && leftToPolicy(err) && c.countUnlocated(c.consumed, target, ends) {
			c.Conclude(target, ends)
			return true, nil
		}
		if err != nil {
			change := plan.Plus(target, plan.Negated(c.consumed))
			return false, &Unconfirmed{Entity: c.request.Entity, Resource: c.request.Resource, Amounts: change, Err: err, NotWritten: true}
		}
		gone := func(a plan.Signed) bool { return !c.levels.has(a.Name) && plan.Includes(was, a.Name) }
		target = c.knownAmounts(slices.DeleteFunc(slices.Clone(target), gone))
		if err := c.checkTarget(target, true); err != nil {
			return false, err
		}
		if c.slots && ends { // Target did not know them
			target, _ = c.levels.changeSlots(c.consumed, target, true)
		}
	}
	k := c.Begin(ctx, target)
	k.final = final
	k.Send(ctx, held)
	if done, err = k.Book(); done {
		c.Conclude(target, ends)
	}
	return done, err
}

// Conclude stores the amounts after a correction or a further take, in millitokens, as the call's use. It writes nothing.
// If ends is set, the lease has ended, and its estimates are removed too.
func (c *Call) Conclude(target []plan.Signed, ends bool) {
	c.whole = c.whole && len(target) <= len(c.consumed)
	if c.consumed = target; ends && c.estimates != nil {
		c.estimates.removeAll()
	}
}

// locateLevels finds the levels of a lease that was granted while the configuration could not be read, and
// books its amounts there as counted. It drops amounts of limits that no level has; it finds no level if nothing
// limits the call any more. held is locked; it is released meanwhile.
func (c *Call) locateLevels(ctx context.Context, held sync.Locker) error {
	var found charged
	var err error
	r := c.request
	r.Amounts = nil // names do not matter: the lease was granted without knowing
	runUnlocked(held, func() { err = c.desk.Routes.find(ctx, &r, &found, nil) })
	if err != nil && (len(found.levels) > 0 || !hasReason[*config.Invalid](err)) { // without a bucket there is nothing to correct
		return err
	}
	c.levels, c.unlimited, c.slots = found.levels, found.unlimited, found.slots
	granted := c.consumed
	c.consumed = slices.DeleteFunc(slices.Clone(granted), func(a plan.Signed) bool { return !c.levels.has(a.Name) })
	for i := range c.levels { // the counter updates of the buckets are written or pending
		lv := &c.levels[i]
		lv.asked, lv.degraded = amountsAt(lv.cfg, c.request.Amounts), true
		for _, a := range c.consumed {
			switch {
			case lv.cfg.IsSlots(a.Name), c.desk.Lanes.SlotsOf(lv.lane).HasLate(a.Name):
				c.slots = true
				lv.holding(a.Name).CountSlots(a.Amount, bucket.SlotsSince(0))
			case lv.has(a.Name):
				lv.holding(a.Name).Counted += a.Amount
			}
		}
	}
	// Slots of a limit that no level has yet end too: their pending count may find it.
	late := slices.DeleteFunc(slices.Clone(granted), func(a plan.Signed) bool {
		return a.Amount == 0 || c.levels.has(a.Name) && !c.levels.hasSlots(a.Name)
	})
	if len(late) > 0 {
		c.late = &lateSlots{late}
	}
	return nil
}

// lateSlots are slots that were counted before the buckets were known.
type lateSlots struct{ amounts []plan.Signed }

// endLateSlots ends the slots that were counted before the buckets were known, if a target has none of them. It
// queues their end behind their pending count.
func (c *Call) endLateSlots(target []plan.Signed) {
	ended := c.late.amounts
	if slices.ContainsFunc(target, func(a plan.Signed) bool { return a.Amount > 0 && plan.Includes(ended, a.Name) }) {
		return
	}
	for _, a := range ended {
		for i := range c.levels {
			if h := c.levels[i].holdingOf(a.Name); h.Counted > 0 {
				c.levels[i].holding(a.Name).Uncount(min(a.Amount, h.Counted))
			}
		}
	}
	c.desk.Lanes.CountUnlocated(c.request.Entity, c.request.Resource, c.request.Given.laneGiven(), nil, ended)
	c.late = nil
}

// checkTarget returns a *config.Invalid if target has amounts below 0 or above the maximum. If unknown is set,
// it returns the error of a limit that no level has, too.
func (c *Call) checkTarget(target []plan.Signed, unknown bool) error {
	for _, t := range target {
		if unknown && t.Amount != 0 && c.levels != nil && !c.levels.has(t.Name) {
			return c.desk.Routes.fallback.UnknownLimitError(c.request.namedLimits(c.levels.namedBuckets(), c.unlimited), t.Name)
		}
		if t.Amount < 0 {
			held, _ := plan.AmountOf(c.consumed, t.Name)
			return invalid("amounts["+t.Name+"]", "gives back %d more than the lease holds (%d)", -t.Amount/milli, held/milli)
		}
		if t.Amount > schema.MaxTokens*milli {
			return invalid("amounts["+t.Name+"]", "makes the lease %d tokens; at most %d are allowed", t.Amount/milli, int64(schema.MaxTokens))
		}
	}
	return nil
}

// countUnlocated queues the change of the used amounts from was to is, for buckets that are not known yet. ends
// means that the lease ends. It returns false if the limiter is closed.
func (c *Call) countUnlocated(was, is []plan.Signed, ends bool) bool {
	var ended []plan.Signed
	if ends {
		ended = is
	}
	change := plan.Plus(is, plan.Negated(was))
	change = slices.DeleteFunc(slices.Clone(change), func(a plan.Signed) bool { return a.Amount == 0 })
	return c.desk.Lanes.CountUnlocated(c.request.Entity, c.request.Resource, c.request.Given.laneGiven(), change, ended)
}

// Begin returns a correction of every level to a target, with its ops, and sends none of them. It queues
// decreases of counted amounts for the buckets' counters at once, and ends late slots that the target lacks.
func (c *Call) Begin(ctx context.Context, target []plan.Signed) Correction {
	if c.renewed {
		c.tops = c.levels.placeCounts(c.tops, target)
	}
	if c.late != nil {
		c.endLateSlots(target)
	}
	k := Correction{desk: c.desk, policy: c.policy, levels: c.levels}
	k.makeOps(ctx, target, c.tops)
	return k
}

// Correction is one correction of a call at every level. It writes the difference to the target. If a
// bucket does not answer, charges are counted and give-backs wait. Begin makes it; then it is sent and
// booked.
type Correction struct {
	desk   *Desk
	policy Policy
	levels levelList
	// final means that no further correction follows: the acquire failed as a whole, or SettleSoon ends
	// the lease.
	final bool
	// writes are those of the levels that need one.
	writes []levelWrite
	// errs are for counted amounts that cannot be corrected, because the limiter is closed.
	errs []error
}

// levelWrite is a correction's write at one level.
type levelWrite struct {
	level *level
	op    *lane.Op
	// result is the outcome. It has an error from the start if the bucket does not answer: then nothing is sent.
	result lane.Result
}

// makeOps makes the ops that bring every level to a target. It queues decreases of counted amounts for the
// buckets' counters at once. A level that does not answer gets its result here, without a request.
func (k *Correction) makeOps(ctx context.Context, target []plan.Signed, known tops) {
	k.writes = make([]levelWrite, 0, len(k.levels))
	for i := range k.levels {
		lv := &k.levels[i]
		if len(lv.underWay) > 0 {
			lv.resolveUnderWay(k.desk.Lanes, &k.desk.Observer)
		}
		writes, uncounts, givenUp := lv.corrections(target, func(limit string) bool { return len(k.levels) > 1 && k.levels.countsAbove(known, i, limit) })
		if len(uncounts) > 0 && !k.countChanges(lv, uncounts) {
			k.errs = append(k.errs, lv.unconfirmed(uncounts, ErrClosed, true))
		}
		if len(givenUp) > 0 {
			k.desk.Lanes.Doubt(givenUp)
		}
		if len(writes) == 0 {
			continue
		}
		w := levelWrite{level: lv, op: lane.NewAdjust(ctx, writes, lv.incarnation, lv.cfg)}
		w.op.Model = lv.model
		if lv.lane.Contact.Away() { // no request: the caller would wait for nothing
			w.result.Err = k.desk.Table.away()
			lv.lane.GiveUp(w.op, w.result.Err)
		}
		k.writes = append(k.writes, w)
	}
}

// Send sends the ops of all levels at once and waits for their results. It releases held, a held lock
// or nil, meanwhile. This goroutine drives the first lane if that is idle.
func (k *Correction) Send(ctx context.Context, held sync.Locker) {
	if held != nil {
		held.Unlock()
		defer held.Lock()
	}
	var own *levelWrite // driven by this goroutine
	for i := range k.writes {
		switch w := &k.writes[i]; {
		case w.result.Err != nil:
		case own == nil:
			own = w
		default:
			w.level.lane.Submit(w.op)
		}
	}
	if own != nil {
		own.level.lane.Ask(ctx, own.op)
	}
	k.Await(ctx)
}

// Submit queues the give-backs of all levels, of a correction after which no other follows, without waiting for
// them. They ride in the next writes of their buckets.
func (k *Correction) Submit() {
	k.final = true
	for i := range k.writes {
		if w := &k.writes[i]; w.result.Err == nil {
			k.desk.Lanes.Riders.Ride(w.level.lane, w.op)
		}
	}
}

// Charges reports whether some level has to charge something.
func (k *Correction) Charges() bool {
	return slices.ContainsFunc(k.writes, func(w levelWrite) bool {
		return slices.ContainsFunc(w.op.Amounts, func(a plan.Signed) bool { return a.Amount > 0 })
	})
}

// Lanes returns the lanes to which the correction has something to send. Levels without a change, and those
// whose bucket does not answer, are left out.
func (k *Correction) Lanes() (lanes []*lane.Lane) {
	for i := range k.writes {
		if w := &k.writes[i]; w.result.Err == nil {
			lanes = append(lanes, w.level.lane)
		}
	}
	return lanes
}

// Await waits for the ops of the correction and keeps their results, with reasons of a call as errors, for
// Book. Once the table does not answer, or ctx has ended, it withdraws queued ops. An op in flight then
// continues with a pending result.
func (k *Correction) Await(ctx context.Context) {
	for i := range k.writes {
		w := &k.writes[i]
		if w.result.Err != nil {
			continue
		}
		select {
		case <-w.op.Done: // that of the lane that this goroutine drove
			w.result = w.op.Result
		default:
			w.result = awaitCorrection(ctx, w.level.lane, w.op, k.desk.Table.Opened())
		}
		if w.result.Err != nil {
			w.result.Err = k.desk.Table.reasonAt(w.level.lane, w.result.Err)
		}
	}
}

// awaitCorrection waits for the result of an adjust, until the table is known not to answer,
// which closes opened, or ctx ends. An adjust that is still queued then is never written;
// the outcome of one in flight can be followed.
func awaitCorrection(ctx context.Context, at *lane.Lane, o *lane.Op, opened <-chan struct{}) lane.Result {
	select {
	case <-o.Done:
	case <-ctx.Done():
		at.GiveUp(o, &lane.Failure{Reason: lane.Unconfirmed, Op: "adjust", Err: ctx.Err()})
	case <-opened:
		at.GiveUp(o, &lane.Failure{Reason: lane.Silent, Err: lane.ErrTripped})
	}
	<-o.Done
	return o.Result
}

// Book books the results at the levels, and returns one reason for all unwritten or unconfirmed amounts; nil if
// all was written or kept. done is false if something was neither written nor kept, so that the same call again
// has to write it.
func (k *Correction) Book() (done bool, err error) {
	errs := k.errs
	done = len(errs) == 0
	for i := range k.writes {
		if err := k.recordResult(&k.writes[i]); err != nil {
			done = done && !err.NotWritten
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return true, nil
	}
	return done, joinReasons(nil, errs...)
}

// recordResult books the result of a level's correction; it returns nil unless amounts stay unwritten or
// unconfirmed. If nothing was written, and the bucket did not answer or no retry will follow, a charge is
// counted and a give-back waits. If it may have been written, a charge stays consumed, and neither is sent
// again.
func (k *Correction) recordResult(w *levelWrite) *Unconfirmed {
	lv, o, r := w.level, w.op, &w.result
	lv.noteAnswer(*r)
	switch {
	case r.Err == nil:
		lv.bookLanded(o.Amounts, r)
		for _, d := range r.Down {
			lv.reportOverrun(&k.desk.Observer, d.Name, d.Amount)
		}
		return nil
	case r.Pending:
		lv.bookUnconfirmed(o.Amounts)
		lv.underWay = append(lv.underWay, o)
		lv.lane.Follow(o)
	case r.Unconfirmed:
		lv.bookUnconfirmed(o.Amounts)
		k.desk.Lanes.Doubt(o.Amounts)
	case (isSilent(r.Err) || k.final) && k.keepUnwritten(lv, o.Amounts):
		return nil
	default:
		for _, a := range o.Amounts {
			lv.holding(a.Name) // known to the lease, though nothing of it is held
		}
	}
	return lv.unconfirmed(o.Amounts, r.Err, !r.Unconfirmed)
}

// keepUnwritten counts charges that could not be written, queues give-backs for the bucket, and marks the level
// as degraded. It books both in the lease's holdings. It returns false, and keeps nothing, if the limiter is
// closed.
func (k *Correction) keepUnwritten(lv *level, amounts []plan.Signed) bool {
	charges, backs := plan.Split(amounts)
	if !k.desk.Lanes.GiveBackLater(lv.lane, plan.Negated(backs), lv.incarnation, lv.model, lv.cfg) {
		return false
	}
	for _, a := range backs { // at once: what waits is not given back again, though nothing is counted
		lv.holding(a.Name).Held += a.Amount
	}
	lv.degraded = true
	return k.countChanges(lv, charges)
}

// countChanges queues changes of a level's counted amounts for the bucket's counter and, under Local, changes
// the process's share. It returns false, and changes neither, if the limiter is closed.
func (k *Correction) countChanges(lv *level, changes []plan.Signed) bool {
	without, kept := lv.countAmounts(k.desk.Lanes, &k.desk.Observer, changes)
	if !kept {
		return false
	}
	if len(without) > 0 && lv.policyOf(k.policy) == Local {
		lv.changeLocally(without, k.desk.Share, k.desk.NowMS())
	}
	return true
}
