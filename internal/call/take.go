package call

import (
	"cmp"
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Take takes the amounts of a request. It uses prefetched tokens if they suffice, then denies if the last
// image of a bucket does, and else asks the buckets. The image in memory never grants. memory reports whether
// the call was decided without a bucket. Take starts again if a limit was removed meanwhile. at is the
// position of a caller that stands in line, else nil: such a caller gets the call with a denial too, because
// its levels name the lines. The error is a reason.
//
//nolint:cyclop,gocognit // the one page of a call: each guard stands where its feature leaves the way
func (d *Desk) Take(ctx context.Context, r *Request, at *Position) (*Call, bool, error) {
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		if d.Table.Open() {
			if err := d.Routes.refuse(r); err != nil {
				return nil, false, err
			}
		}
		// Which buckets, under which limits: from the cache, or a read.
		c := &Call{desk: d, request: *r, charged: charged{policy: r.OnUnavailable}}
		p, err := patience{most: d.Timeout, ahead: at == nil && try == 1}, error(nil) // begins when something has to be asked of the store
		if err = d.Routes.find(ctx, r, &c.charged, &p); err != nil && isUnavailable(err) {
			err = d.Routes.decideUnconfigured(r, &c.charged, err)
		}
		if err == nil { // before anything is asked, or served
			if paused := c.levels.longestPause(d.NowMS); paused != nil {
				err = paused
			}
		}
		if err != nil && p.refreshes.haveChanges() {
			continue
		}
		if err != nil {
			return nil, p.began.IsZero() && needsNoBucket(err), err
		}
		// Decisions from memory: prefetched tokens, a denial.
		t := c.startTake(at, p)
		served := d.Lanes.Horizon != nil && p.refreshes == nil && !r.Batch && d.mayServe(r, len(c.levels)) && c.levels.serve(ctx)
		var denied *Denied
		memory := false
		if !served && p.refreshes == nil {
			denied, memory = t.denyFromMemory(ctx, d.NowMS())
		}
		if (served || memory) && len(c.levels) == 1 {
			d.makeShortcut(r, c.levels[0].lane)
		}
		if denied != nil {
			if denied.special {
				finishDenial(d.Lanes, at, denied)
			}
			return c, memory, denied
		}
		c.setConsumed()
		if served {
			c.levels.bookServed()
			return c, true, nil
		}
		// Ask the buckets.
		if len(c.levels) > 0 {
			err = t.take(ctx)
		} else if c.IsUnlocated() && !c.countUnlocated(nil, c.consumed, false) {
			d.Lanes.Drop(c.consumed) // closed meanwhile
		}
		if p.refreshes != nil && p.refreshes.haveChanges() && t.isRepeatable(err) {
			if err = t.undoGrants(ctx); err == nil {
				continue
			}
			return c, false, err
		}
		if err == nil {
			paused := c.levels.longestPause(d.NowMS)
			if paused == nil {
				if !t.plain {
					c.estimates = c.chargeEstimates()
				}
				return c, c.levels == nil && c.unlimited && t.patience.began.IsZero(), nil
			}
			err = joinReasons(paused, t.undoGrants(ctx)) // the pause was learnt meanwhile; with the process's share
		}
		if denied, is := findReason[*Denied](err); is && denied.special {
			finishDenial(d.Lanes, at, denied)
		}
		if try == maxOutdated || !isOutdated(err) {
			return c, false, err
		}
	}
}

// startTake returns the state of a take of the call's amounts from its levels, for a caller at a position in a
// line, or nil. It asks no bucket, and marks the levels of a batch call.
func (c *Call) startTake(at *Position, p patience) taking {
	t := taking{desk: c.desk, request: &c.request, policy: c.policy, levels: c.levels, tops: c.tops, at: at, by: lane.Caller{Rank: lane.LastRank, Batch: c.request.Batch}, patience: p}
	if at != nil && at.waiter != nil {
		t.by.Rank = at.waiter.Rank
	}
	if t.by.Batch {
		for i := range t.levels {
			t.levels[i].batch = true
		}
	}
	return t
}

// A transaction holds all buckets of the longest chain: each level has a resource and its groups.
const _ = uint(ddb.MaxTransact - schema.MaxDepth*(1+schema.MaxGroups))

// take charges the levels, all or none, and books the grants in them; the error is a reason, and served amounts
// then go back. The policy decides at levels that do not answer. The buckets decide at the others: in one
// transaction only in that charge mode and if none may be silent, else side by side.
func (t *taking) take(ctx context.Context) error {
	t.patience.startClock(ctx)
	var err error
	away := false
	for i := range t.levels {
		away = away || t.levels[i].lane.Contact.Away()
	}
	if away {
		err = t.admitSilent()
	}
	if t.at != nil && err == nil {
		err = t.checkContest()
	}
	switch {
	case err != nil: // no bucket is asked
	case len(t.levels) > 1 && t.desk.modeOf(t.request) == Transaction && t.levels.countAsked() > 1 && !slices.ContainsFunc(t.levels, mayBeSilent):
		err = t.takeTogether(ctx)
	default:
		err = t.takeSideBySide(ctx)
	}
	prefetches := t.desk.Lanes.Horizon != nil
	if err != nil {
		t.undoLocal()
		if prefetches {
			t.levels.putBackServed(ctx)
		}
		return err
	}
	if prefetches {
		t.levels.bookServed()
	}
	if !t.unasked && t.desk.Observer.Overran == nil {
		return nil
	}
	for i := range t.levels {
		lv := &t.levels[i]
		if lv.unasked {
			t.countAdmitted(lv)
		}
		for _, h := range lv.holdings {
			lv.reportOverrun(&t.desk.Observer, h.Name, h.Uncharged())
		}
	}
	return nil
}

// mayBeSilent reports whether a level was admitted without its bucket, or may have a silent bucket.
func mayBeSilent(lv level) bool {
	return lv.unasked || lv.lane.Contact.Suspected() && !lv.isSkipped()
}

// takeSideBySide asks the lanes of all levels at the same time, and so the only level of most calls; one may be
// asked first. If one denies or fails, the grants of the others are given back. This goroutine drives the first
// lane if that is idle.
func (t *taking) takeSideBySide(ctx context.Context) error {
	levels := t.levels
	ops := make([]*lane.Op, len(levels))
	for i := range levels {
		lv := &levels[i]
		ops[i] = lane.NewTake(ctx, lv.asked, lv.cfg)
		ops[i].Model, ops[i].Batch = lv.model, t.by.Batch
		if t.at != nil {
			if ops[i].Rank = t.by.Rank; lv.lane == t.at.lane {
				ops[i].Waiter = t.at.waiter
			}
		}
		if ops[i].Until = t.patience.until; lv.isSkipped() {
			close(ops[i].Done)
		}
	}
	driven := ctx
	if !t.patience.reserve.IsZero() {
		var cancel context.CancelFunc
		driven, cancel = context.WithDeadline(ctx, t.patience.reserve)
		defer cancel()
	}
	first, decides := -1, false
	if len(levels) > 1 {
		first, decides = t.firstLevel()
	}
	if first >= 0 {
		if over, err := t.writeFirst(ctx, ops, first, decides); over {
			return err
		}
	}
	own := -1 // driven by this goroutine
	for i := range levels {
		switch lv := &levels[i]; {
		case lv.isSkipped() || i == first:
		case own < 0:
			own = i
		default:
			lv.lane.Submit(ops[i])
		}
	}
	if own >= 0 {
		levels[own].lane.Ask(driven, ops[own])
	}
	for i, o := range ops {
		select {
		case <-o.Done: // that of the lane that this goroutine drove
			continue
		default:
		}
		if !t.awaitOp(ctx, levels[i].lane, o) && !t.leaveAll(ops) {
			return ctx.Err()
		}
	}
	return t.finishTake(ctx, ops, t.policy)
}

// finishTake books the results of the levels, and returns nil if the call is granted, also by the policy.
// Otherwise it gives back the grants and returns the reason.
func (t *taking) finishTake(ctx context.Context, ops []*lane.Op, policy Policy) error {
	var err error
	unanswered := false
	switch o := t.bookResults(ops); {
	case o.denied:
		err = t.levels.denial(t.request)
	case o.fault != nil:
		err = o.fault
	case o.failure == nil:
		return nil
	case !policy.Admits() && !o.counted:
		err, unanswered = o.failure, true
	default:
		if err = t.admitFailed(ops); err == nil {
			return nil
		}
		unanswered = !hasReason[*Denied](err)
	}
	unconfirmed := t.disownFailed(ops)
	if unconfirmed != nil && unanswered {
		err, unconfirmed = unconfirmed, nil // it wraps the failure
	}
	return joinReasons(err, unconfirmed, t.undoGrants(ctx))
}

// outcome is the combined result of an acquire's levels.
type outcome struct {
	// denied means that the bucket of some level denied.
	denied bool
	// failure is an error of the store; the policy decides about it. fault is a bug or a bad request.
	// It never fails open, whatever the other levels did.
	failure, fault error
	// counted means that every failed level only counts, because a level is unlimited.
	counted bool
}

// bookResults books the result of every level: grants as held, answers for statuses. It replaces the lanes'
// errors in ops with reasons of the call, and returns the combined result. It gives nothing back.
func (t *taking) bookResults(ops []*lane.Op) outcome {
	sum, plain := outcome{counted: true}, t.desk.Lanes.Horizon == nil
	for i, o := range ops {
		lv := &t.levels[i]
		if o.Result.Err != nil {
			o.Result.Err = t.desk.Table.reasonAt(lv.lane, o.Result.Err)
		}
		r := o.Result
		lv.noteAnswer(r)
		switch {
		case lv.isSkipped():
		case r.Denied:
			sum.denied = true
		case r.Err == nil:
			plain = !lv.bookGrant(&r) && plain
		case leftToPolicy(r.Err) || lv.onlyCounts() && (isUnavailable(r.Err) || hasReason[*Contended](r.Err)):
			sum.failure, sum.counted = r.Err, sum.counted && lv.onlyCounts()
		default:
			sum.fault = cmp.Or(sum.fault, r.Err)
		}
	}
	t.plain = plain
	return sum
}

// disownFailed returns the error for amounts that a failed acquire may have charged although no answer came. It
// follows a write in flight, and its grant is given back. Other such amounts count as in doubt.
func (t *taking) disownFailed(ops []*lane.Op) error {
	var unconfirmed error
	for i, o := range ops {
		lv, r := &t.levels[i], o.Result
		if lv.isSkipped() || !r.Unconfirmed {
			continue
		}
		if r.Pending {
			lv.lane.Follow(o)
		} else {
			t.desk.Lanes.Doubt(lv.asked)
		}
		unconfirmed = joinReasons(unconfirmed, lv.unconfirmed(lv.asked, r.Err, false))
	}
	return unconfirmed
}

// isRepeatable reports whether to start a call that ended with err again under a newer configuration: its
// buckets granted or denied it. It is false if the policy admitted something, or if something may have been
// written.
func (t *taking) isRepeatable(err error) bool {
	if err != nil {
		return hasReason[*Denied](err) && !isUnconfirmed(err)
	}
	return !t.unasked && !slices.ContainsFunc(t.levels, func(lv level) bool { return lv.degraded })
}

// undoGrants gives back the grants and counts of a take that failed as a whole, even if ctx has ended.
// Give-backs that cannot be written now wait for their bucket, because no retry follows. It returns the reason
// for amounts that stay unwritten or unconfirmed.
func (t *taking) undoGrants(ctx context.Context) error {
	if !slices.ContainsFunc(t.levels, func(lv level) bool { return len(lv.holdings) > 0 }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.desk.Cleanup)
	defer cancel()
	k := Correction{desk: t.desk, policy: t.policy, levels: t.levels, final: true}
	k.makeOps(ctx, nil, t.tops) // every held limit comes to 0
	k.Send(ctx, nil)
	_, err := k.Book()
	return err
}
