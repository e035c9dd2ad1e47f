package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// What an acquire does when a bucket does not answer. The policy decides, once a
// level: Block fails, Allow admits, Local asks the process's share of the limits.
// What a policy admits is owed to the bucket, which is charged when it answers.

// leftToPolicy reports whether the policy decides about an error: the store did not
// answer or had no capacity, or too many other clients changed the bucket.
func leftToPolicy(err error) bool { return unavailable(err) || errors.Is(err, ErrContended) }

// admits reports whether the policy may admit calls without the store.
func (p UnavailablePolicy) admits() bool { return p == Allow || p == Local }

// admitSilentLevels decides at the levels whose buckets are known not to answer, before
// any other level is asked. If the process's share denies, nothing has been written.
func (l *RateLimiter) admitSilentLevels(lease *Lease, policy UnavailablePolicy) error {
	for i := range lease.levels {
		lv := &lease.levels[i]
		if len(lv.asked) == 0 || !lv.lane.Away() {
			continue
		}
		if !policy.admits() {
			return l.unanswered(l.cause())
		}
		if lv.unasked = l.admitByPolicy(lv, policy, true); !lv.unasked {
			err := lease.denial()
			l.undoLocal(lease)
			return err
		}
	}
	return nil
}

// admitByPolicy admits at a level without its bucket. It returns false if the process's
// share denies. Under Allow the share decides only if the store has answered, so is not
// silent.
func (l *RateLimiter) admitByPolicy(lv *level, policy UnavailablePolicy, silent bool) bool {
	lv.degraded = true
	if policy == Allow && silent {
		lv.noteAnswer(lv.lane.Memory(lv.cfg))
		return true
	}
	r, ok := lv.lane.AdmitLocally(lv.asked, lv.cfg, l.opts.LocalShare, l.nowMS())
	lv.noteAnswer(r)
	lv.local = ok
	return ok
}

// undoLocal gives back what the process's share admitted to an acquire that failed as a
// whole.
func (l *RateLimiter) undoLocal(lease *Lease) {
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.local {
			lv.local = false
			lv.lane.GiveBackLocally(lv.asked, lv.cfg, l.opts.LocalShare, l.nowMS())
		}
	}
}

// oweUnasked owes to the buckets what was admitted without asking them.
func (l *RateLimiter) oweUnasked(lease *Lease) {
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.unasked {
			l.owe(lv, lv.asked)
		}
	}
}

// owe has a bucket charged later. It returns false if no more can be kept.
func (l *RateLimiter) owe(lv *level, amounts []plan.Signed) bool {
	c := lv.lane.Owe(amounts, lv.cfg)
	if c == nil {
		return false
	}
	for _, a := range amounts {
		lv.holding(a.Name).Owe(c, a.Amount)
	}
	return true
}

// bookAdmitted books at a level the result of a take that failed and that the policy
// admitted.
func (l *RateLimiter) bookAdmitted(lv *level, o *lane.Op) {
	switch r := o.Result; {
	case r.Pending:
		l.follow(lv, o, lv.asked)
	case r.Unconfirmed:
		l.lanes.Doubt(lv.asked)
		for _, a := range lv.asked {
			lv.holding(a.Name).Doubted(a.Amount)
		}
	default:
		l.owe(lv, lv.asked)
	}
}

// follow makes the charges of a write under way part of the lease. They are held if it
// lands, in doubt if that is not known, and owed otherwise.
func (l *RateLimiter) follow(lv *level, o *lane.Op, amounts []plan.Signed) {
	lv.degraded = true
	c := lv.lane.Follow(o, amounts, lv.cfg, l.nowMS())
	for _, a := range amounts {
		lv.holding(a.Name).Owe(c, a.Amount)
	}
}

// errOutOfTime ends a call that used up its time for the store.
var errOutOfTime = errors.New("no answer within Options.Timeout")

// outOfTimeFor is errOutOfTime with the reason why it took so long, if that is known.
func outOfTimeFor(cause error) error {
	if cause == nil {
		return errOutOfTime
	}
	return fmt.Errorf("%w: %w", errOutOfTime, cause)
}

// patience is how long a call waits for the store.
type patience struct {
	began time.Time
	// until is when the call's time for the store ends. reserve is earlier than the
	// caller's own deadline, so that the policy can still decide. Either may be zero.
	until, reserve time.Time
}

const (
	// mostReserve bounds the time before a caller's deadline that is left to the policy,
	// which is a tenth of the time otherwise.
	mostReserve = 50 * time.Millisecond
	// leastSilence is how long a bucket must be silent before a caller's own deadline
	// lets the policy admit. Otherwise a short deadline would be a way around a limit.
	leastSilence = 200 * time.Millisecond
)

// begin starts the time that a call has for the store, if it has not started.
func (l *RateLimiter) begin(ctx context.Context, p *patience) {
	if !p.began.IsZero() {
		return
	}
	p.began = time.Now()
	p.until = p.began.Add(l.opts.Timeout)
	if deadline, ok := ctx.Deadline(); ok {
		if left := deadline.Sub(p.began); left < l.opts.Timeout+mostReserve {
			p.reserve = deadline.Add(-min(left/10, mostReserve))
		}
	}
}

// bound is when a call stops waiting for a read; zero means never. It starts the call's
// patience; a nil patience has no end.
func (l *RateLimiter) bound(ctx context.Context, p *patience) time.Time {
	if p == nil {
		return time.Time{}
	}
	l.begin(ctx, p)
	return p.bound()
}

// bound is when a call stops waiting for a request that no lane sends. That is before
// the caller's own deadline if the store has had time enough to be called silent by
// then.
func (p *patience) bound() time.Time {
	if p.reserve.Before(p.until) && p.reserve.Sub(p.began) >= leastSilence {
		return p.reserve
	}
	return p.until
}

// next is the instant at which a waiting call next has to decide something.
func (p *patience) next() time.Time {
	if !p.reserve.IsZero() && p.reserve.Before(p.until) {
		return p.reserve
	}
	return p.until
}

// await waits for an op of a call, until it has its result, its bucket or table is known
// not to answer, or the call's time for the store is over. It returns false if ctx has
// ended.
func (l *RateLimiter) await(ctx context.Context, at *lane.Lane, o *lane.Op, p *patience) bool {
	select {
	case <-o.Done:
		return true
	default:
	}
	timer := time.NewTimer(time.Until(p.next()))
	defer timer.Stop()
	for {
		select {
		case <-o.Done:
			return true
		case <-ctx.Done():
			return false
		case <-l.lanes.Table.Opened():
			at.GiveUp(o, l.unanswered(l.cause()))
			return true
		case <-timer.C:
		}
		switch {
		case at.Quiet(p.began) >= leastSilence:
			at.GiveUp(o, l.unanswered(errOutOfTime))
			return true
		case !time.Now().Before(p.until):
			at.GiveUp(o, &UnavailableError{Op: "acquire", Err: outOfTimeFor(at.Cause(o))})
			return true
		}
		p.reserve = time.Time{} // too short a silence: the caller's deadline decides
		timer.Reset(time.Until(p.until))
	}
}

// unconfigured decides a call whose configuration could not be read. Allow admits it
// without any limit known; Local admits by the limiter's own limits, if it has any.
func (l *RateLimiter) unconfigured(r *request, c cascade, policy UnavailablePolicy, err error) (cascade, error) {
	c.rungs, c.asked, c.unlimited = c.rungs[:0], c.asked[:0], false
	switch {
	case policy == Allow:
		return c, nil
	case policy == Local && l.fallback != nil:
		cfg := newBucketConfig(l.fallback.limits, LevelOptions, false, l.nowMS(), l.repo.tick())
		if len(r.opts.limits) > 0 {
			cfg = overridden(cfg, l.fallback.limits, r.opts.limits, l.nowMS(), l.repo.tick())
		}
		c = c.with(l.lanes.Of(r.entity, r.resource), cfg, r.amounts)
		return c, l.checkKnown(r, &c)
	}
	return c, err
}

// cause is why the table does not answer.
func (l *RateLimiter) cause() error {
	if err := l.lanes.Table.Cause(); err != nil {
		return err
	}
	return lane.ErrTripped
}
