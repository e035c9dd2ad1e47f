package dynalimit

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// SettleSoon is Settle for a caller that must not wait. It queues the give-backs before it returns, so
// the next calls of this process are decided with them, and writes them in the background. A store that
// does not answer delays nobody. A give-back waits up to 20 ms for the next write of its bucket, which
// carries it at no cost. It is written at once where callers wait for tokens, and with slots. The lease has
// ended when SettleSoon returns; its Used follows.
//
// Charges above the lease are written at once, as by Settle, because they must not be lost with the
// process. Give-backs are written at once too while 1,024 leases of the limiter, or 64 of a bucket, are
// being settled. So are they after RateLimiter.Close, which waits for the leases being settled.
//
// An amount that cannot be written waits until the bucket answers. Health counts amounts in doubt or
// dropped. If a correction is in flight, or the limits of the lease could not be read yet, the
// settlement waits its turn in the background. If the process crashes, the lease's tokens stay consumed.
//
// settled, if it is not nil, is called once by each SettleSoon that returns nil or ends the lease, with
// the error of the settlement. The call comes before SettleSoon returns, or later on another goroutine.
// It must be quick. On a lease that has ended SettleSoon only calls settled(nil) and returns nil.
//
// Errors: *ValidationError, and then nothing has changed; those of Settle for amounts written at once.
// It may be called again after an error.
func (lease *Lease) SettleSoon(ctx context.Context, actual Amounts, settled func(error)) error {
	if err := lease.checkUsable(ctx); err != nil {
		return err
	}
	change, err := settlement(actual)
	if err != nil {
		return err
	}
	if settled == nil {
		settled = func(error) {}
	}
	lease.mu.Lock()
	if lease.ended || lease.soon {
		lease.mu.Unlock()
		settled(nil)
		return nil
	}
	c := lease.currentCall()
	target, reason := c.TargetNow(change.target)
	if reason != nil {
		lease.mu.Unlock()
		return errorOf(lease.limiter.repo.layout, reason)
	}
	s := settling{lease: lease, ctx: context.WithoutCancel(ctx), settled: settled}
	switch {
	case raisesAny(c.Consumed(), target):
	case lease.busy || c.IsUnlocated():
		if s.enter(nil) {
			change.soon = true
			lease.mu.Unlock()
			go s.settleAfterCorrection(change)
			return nil
		}
	default:
		return s.queueGiveBacks(target)
	}
	lease.mu.Unlock()
	return s.settleNow(change)
}

// raisesAny reports whether a target exceeds the consumed amount of any limit.
func raisesAny(consumed, target []plan.Signed) bool {
	return slices.ContainsFunc(target, func(t plan.Signed) bool {
		held, _ := plan.AmountOf(consumed, t.Name)
		return t.Amount > held
	})
}

// settling is one lease that is being settled behind its caller.
type settling struct {
	lease   *Lease
	ctx     context.Context
	settled func(error)
	lanes   []*lane.Lane
}

// enter counts the lease among those that SettleSoon is settling, stores lanes in s, and allows no other
// corrections of the lease. It returns false, and does nothing, if there are too many, or after Close. The
// lease's lock must be held.
func (s *settling) enter(lanes []*lane.Lane) bool {
	l := s.lease.limiter
	if !l.settling.enter(lanes) {
		return false
	}
	l.desk.Lanes.Started()
	s.lanes, s.lease.soon = lanes, true
	return true
}

// settleNow settles the lease while its caller waits, and returns the error. If nothing is left to be done, it
// first passes the error to settled.
func (s *settling) settleNow(change correction) error {
	done, err := s.lease.correct(s.ctx, change)
	if done {
		s.settled(err)
	}
	return err
}

// settleAfterCorrection waits for the end of a correction in flight, settles the lease, and passes the error,
// or nil, to settled. It ends the lease's count in the limiter.
func (s *settling) settleAfterCorrection(change correction) {
	s.reportResult(guard.Apart(func() error {
		_, err := s.lease.correct(s.ctx, change)
		return err
	}))
}

// queueGiveBacks corrects an idle lease to a target: it queues the give-backs, finishes in the background, and
// returns nil. If there is something to charge, nothing to write, or no room in the background, it settles at
// once. It then passes a final result to settled, and returns the error. The caller holds the lease's lock,
// which queueGiveBacks releases.
func (s *settling) queueGiveBacks(target []plan.Signed) error {
	lease, c := s.lease, s.lease.call
	lease.busy, lease.corrected = true, true
	ctx, cancel := context.WithTimeout(s.ctx, lease.limiter.desk.Cleanup)
	var seen *observedCorrection
	if lease.limiter.reports.Corrected != nil {
		seen = lease.limiter.reports.observeCorrection(observe.CorrectionSettle, c)
	}
	k := c.Begin(ctx, target)
	lanes := k.Lanes()
	if k.Charges() || len(lanes) == 0 || !s.enter(lanes) { // charges: left over from an earlier correction
		defer cancel()
		k.Send(ctx, &lease.mu)
		done, err := s.bookCorrection(&k, target, seen)
		if done {
			s.settled(err)
		}
		return err
	}
	k.Submit()
	lease.mu.Unlock()
	go func() {
		defer cancel()
		k.Await(ctx)
		lease.mu.Lock()
		_, err := s.bookCorrection(&k, target, seen)
		s.reportResult(err)
	}()
	return nil
}

// bookCorrection books the answers of a correction to a target, and reports it to the observer. It ends the
// lease if done, which means that nothing is left to write, or if SettleSoon is ending it. The lease's lock
// must be held; bookCorrection releases it.
func (s *settling) bookCorrection(k *call.Correction, target []plan.Signed, seen *observedCorrection) (done bool, err error) {
	lease := s.lease
	done, reason := k.Book()
	if reason != nil {
		err = errorOf(lease.limiter.repo.layout, reason)
	}
	if done || lease.soon {
		lease.call.Conclude(target, true)
		lease.ended = true
	}
	if seen != nil {
		seen.setChange(lease.call.Consumed())
	}
	lease.endCorrection()
	if seen != nil {
		seen.reportEnd(s.ctx, err)
	}
	return done, err
}

// reportResult passes the result of the settlement to settled, logs a panic of that function, and ends the
// lease's count in the limiter. It counts amounts that were surely not written as dropped. After Close the
// limiter keeps unconfirmed ones for its error.
func (s *settling) reportResult(err error) {
	l := s.lease.limiter
	var failed []*UnconfirmedError
	for _, e := range collectUnconfirmed(err) {
		if failed = append(failed, e); e.NotWritten { // it is never written: the limiter is closed
			l.desk.Lanes.Drop(call.SignedOf(e.Amounts))
		}
	}
	defer l.desk.Lanes.Stopped()
	defer l.settling.leave(s.lanes, failed)
	guard.Call(func() { s.settled(err) }, func(e *guard.Ended) { // it is the caller's
		l.log.Error("dynalimit: the function given to SettleSoon did not return", slog.Any("cause", e), slog.String("stack", string(e.Stack)))
	})
}

// collectUnconfirmed returns the *UnconfirmedErrors in an error, also in joined ones, one a level. It returns
// nil for other errors.
func collectUnconfirmed(err error) (all []*UnconfirmedError) {
	if e, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range e.Unwrap() {
			all = append(all, collectUnconfirmed(one)...)
		}
		return all
	}
	if e, ok := errors.AsType[*UnconfirmedError](err); ok {
		all = append(all, e)
	}
	return all
}
