package llm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/prices"
)

// Call is an admitted model call. Guard.Start and Guard.Do make it; end it with Settle,
// or with Rollback if the call was not made. A deferred Rollback is safe, because it
// does nothing after Settle. A Call is safe for concurrent use.
type Call struct {
	// Label and Model are the label and model to call. Label is empty without a budget;
	// Model is then the request's Model, or else its Resource.
	Label, Model string
	// RequestID is the id under which the call is counted.
	RequestID string

	guard   *Guard
	request Request
	since   time.Time
	priced  string // the model that the keeper knows; empty if it did not answer

	mu    sync.Mutex
	lease *dynalimit.Lease // nil without a limiter
	need  need

	record     *prices.Usage // by the first Settle
	used       Usage         // of the record
	settled    bool          // the lease was settled
	handed     bool          // the record was handed over
	rolledBack bool
	sent       bool // the request is on its way
	told       bool // OnSettled ran, or will run

	meter struct {
		once sync.Once
		*Meter
	}
}

// Lease returns the limiter's grant, for example for its Statuses. It is nil without a limiter, and for a nil
// call.
func (c *Call) Lease() *dynalimit.Lease {
	if c == nil {
		return nil
	}
	return c.lease
}

// Settle ends the call at its usage. It corrects the lease, also after ctx has ended, and hands the
// record to the guard, which sends it to the Keeper in the background; see Guard.Close. If 1,000
// records are pending, Settle waits for one of them. A second Settle does nothing.
//
// Errors: *ValidationError for impossible token counts, and then nothing is
// written; ErrEnded after Rollback; *UnsettledError for failed
// writes. Settle again repeats only those, with the first record, unless that was
// invalid.
func (c *Call) Settle(ctx context.Context, usage Usage) error {
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	if err := usage.validate(); err != nil {
		return err
	}
	tell, err := c.settleLocked(ctx, usage)
	tell(err)
	return err
}

// settleLocked settles the call like Settle, under the call's lock, and fails with ErrEnded or *UnsettledError.
// It returns a callback, never nil, which calls OnSettled; the caller runs it after the lock is released.
func (c *Call) settleLocked(ctx context.Context, usage Usage) (tell func(error), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rolledBack {
		return func(error) {}, ErrEnded
	}
	if c.record == nil {
		c.record, c.used = c.recordOf(usage), usage
	}
	ctx, cancel := c.guard.lastingContext(ctx)
	defer cancel()
	amounts, measureErr := c.measureRecord()
	countErr, leaseErr := runTogether(
		func() error { return c.handOverRecord(ctx) },
		func() error {
			if measureErr != nil {
				return measureErr
			}
			return c.correctLease(ctx, amounts)
		},
	)
	tell = c.claimReport(amounts)
	return tell, c.unsettledError(countErr, leaseErr)
}

// SettleSoon settles the call like Settle, but writes the lease's correction in the background; the next call
// already counts on it. Options.OnSettled receives the result. It returns only earlier errors, and without a
// lease or after a failed Settle it is Settle.
func (c *Call) SettleSoon(ctx context.Context, usage Usage) error {
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	if err := usage.validate(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.rolledBack || c.record != nil || c.lease == nil || c.settled {
		c.mu.Unlock()
		return c.Settle(ctx, usage)
	}
	c.record, c.used = c.recordOf(usage), usage
	amounts, err := c.measureRecord()
	if err != nil { // Settle returns it, and counts the call all the same
		c.mu.Unlock()
		return c.Settle(ctx, usage)
	}
	c.settled = true
	told, follow := c.claimReport(amounts), c.guard.records.followLease()
	c.mu.Unlock()
	ends, leaseErr := c.settleLeaseSoon(ctx, amounts, func(err error) { defer follow(); told(err) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = ends
	ctx, cancel := c.guard.lastingContext(ctx)
	defer cancel()
	return c.unsettledError(c.handOverRecord(ctx), leaseErr)
}

// settleLeaseSoon settles the lease at the amounts in the background and passes the result to tell, exactly
// once, also after an immediate failure. It returns false with the error if the lease stays open, as after a
// charge that failed at once.
func (c *Call) settleLeaseSoon(ctx context.Context, amounts dynalimit.Amounts, tell func(error)) (ends bool, err error) {
	done := false // read only after an error: then no other goroutine writes it
	err = c.lease.SettleSoon(ctx, amounts, func(err error) {
		done = true
		tell(err)
	})
	if err != nil && !done {
		tell(err)
	}
	return err == nil || done, err
}

// claimReport marks the call's end as reported, and returns a callback that passes it and the settlement's
// error to Options.OnSettled. The callback does nothing if the option is nil or the end was reported before.
// Hold the lock here, but not in the callback.
func (c *Call) claimReport(amounts dynalimit.Amounts) (tell func(error)) {
	if c.told || c.guard.opts.OnSettled == nil {
		return func(error) {}
	}
	c.told = true
	s := Settled{Request: c.request, Model: c.Model}
	s.Request.RequestID = c.RequestID
	if c.record != nil {
		s.Tokens, s.Parts, s.Status, s.Source = c.record.Tokens, c.used.Parts, c.record.Status, c.sourceOfTokens()
	}
	for name := range c.need.money {
		s.CostMicros = max(s.CostMicros, amounts[name])
	}
	return func(err error) {
		s.Statuses, s.Err = c.lease.Statuses(), err
		guard.Call(func() { c.guard.opts.OnSettled(s) }, logEnded("OnSettled")) // or the record would not be handed over
	}
}

// sourceOfTokens returns the origin of the record's tokens: Reported, Metered, or Estimated if the estimate
// replaces any part. Hold the lock.
func (c *Call) sourceOfTokens() Source {
	switch {
	case c.used.unseen == promptUnseen || c.used.unseen == allUnseen:
		return Estimated
	case c.used.unseen == partsUnseen && !c.Meter().isSet():
		return Metered
	}
	return Reported
}

// unsettledError returns an *UnsettledError with the two failures, nil if both are nil. If countErr is a
// *ValidationError, it drops the call's record, so that the next Settle can use another one. Hold the lock.
func (c *Call) unsettledError(countErr, leaseErr error) error {
	if countErr == nil && leaseErr == nil {
		return nil
	}
	unsettled := &UnsettledError{Org: c.request.Org, App: c.request.App, Record: *c.record, Lease: leaseErr, Budget: countErr}
	var bad *ValidationError
	if errors.As(countErr, &bad) { // not handed over: a corrected record may be
		c.record = nil
	}
	return unsettled
}

// handOverRecord validates the record and passes it to the guard's background sender, once; calls without a
// Keeper do nothing. It waits while too many records are pending, and fails for an invalid record or if ctx
// ends first. Hold the lock.
func (c *Call) handOverRecord(ctx context.Context) error {
	if c.guard.opts.Keeper == nil || c.handed {
		return nil
	}
	err := c.record.Validate()
	if err == nil {
		err = c.guard.records.queueRecord(ctx, c.request.Org, c.request.App, *c.record)
	}
	c.handed = err == nil
	return err
}

// measureRecord returns the final amount of each limit for the call's record. It returns nil without a lease or
// if the lease is settled, and the error of a Measure. Hold the lock.
func (c *Call) measureRecord() (dynalimit.Amounts, error) {
	if c.lease == nil || c.settled {
		return nil, nil
	}
	u := c.used
	u.Model, u.Status, u.Time = c.Model, c.record.Status, c.record.Time
	return c.need.measureUsage(c.request.Limits, u)
}

// correctLease settles the lease at amounts and sets c.settled if that succeeds. It returns the lease's error,
// and nil without a lease or if it is settled already. Hold the lock.
func (c *Call) correctLease(ctx context.Context, amounts dynalimit.Amounts) error {
	if c.lease == nil || c.settled {
		return nil
	}
	err := c.lease.Settle(ctx, amounts)
	c.settled = err == nil
	return err
}

// recordOf returns a new budget record of a usage, with the call's id, label and tags. Status defaults to
// StatusOK, the time to the call's start. It stores nothing in c.
func (c *Call) recordOf(u Usage) *prices.Usage {
	if u.Status == "" {
		u.Status = StatusOK
	}
	if u.Time.IsZero() {
		u.Time = c.since
	}
	return &prices.Usage{
		RequestID: c.RequestID, Label: c.Label, Model: c.priced, Tokens: u.Tokens, Status: u.Status, Time: u.Time, Tags: c.request.Tags,
	}
}

// Rollback gives the lease back, for a call that was not made. After Sent it keeps the prompt's
// estimate instead, as Failed does. It continues after ctx has ended, and may be called again after a
// failure. After Settle it does nothing, also after a failed one: used tokens stay used.
func (c *Call) Rollback(ctx context.Context) error {
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	if c.wasSent() {
		return c.Failed(ctx, Outcome{})
	}
	return c.giveBack(ctx, func(ctx context.Context, tell func(error)) error {
		ctx, cancel := c.guard.lastingContext(ctx)
		defer cancel()
		err := c.lease.Rollback(ctx)
		tell(err)
		return err
	})
}

// giveBackSoon marks the call as rolled back and settles the lease at 0 of each limit in the background. It
// does nothing if the call has a record or its lease is settled. It returns only errors of the start; OnSettled
// gets those of the write.
func (c *Call) giveBackSoon(ctx context.Context) error {
	return c.giveBack(ctx, func(ctx context.Context, tell func(error)) error {
		none := c.lease.Used()
		for name := range none {
			none[name] = 0
		}
		follow := c.guard.records.followLease()
		_, err := c.settleLeaseSoon(ctx, none, func(err error) { defer follow(); tell(err) })
		return err
	})
}

// giveBack marks the call as rolled back and calls back. That gives back the lease's amounts and passes the
// result to its argument, for OnSettled. It returns back's error, and does nothing if the call has a record or
// its lease is settled.
func (c *Call) giveBack(ctx context.Context, back func(context.Context, func(error)) error) error {
	c.mu.Lock()
	if c.record != nil || c.settled {
		c.mu.Unlock()
		return nil
	}
	c.rolledBack = true
	tell := c.claimReport(nil)
	c.mu.Unlock()
	if c.lease == nil {
		tell(nil)
		return nil
	}
	return back(ctx, tell)
}

// Sent marks that the request is on its way to the provider, which may bill it. From then on
// Rollback, and every other end without a usage, keep the prompt's estimate. Only Failed
// gives it back, for an answer of the provider that shows that nothing is billed.
func (c *Call) Sent() {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent = true
	}
}

// wasSent reports whether Sent was called. It takes the call's lock.
func (c *Call) wasSent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// Failed ends a call without a usage of its provider, unless its Meter has Set one:
//
//	not Sent, or 3xx                      all is given back
//	4xx or 5xx before the first token     the tokens are given back; the request too unless Counts
//	Processed, or Sent and no answer      the prompt's estimate stays
//	an error Event in a stream            the metered tokens; before the first token the prompt's estimate
//	Cut                                   the metered tokens and its prompt, with StatusCut
//	200 without a usage, anything else    the whole estimate stays
//
// It settles in the background, also after ctx has ended. After Settle, Rollback or another Failed it
// does nothing. Errors are those of SettleSoon.
func (c *Call) Failed(ctx context.Context, o Outcome) error {
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	if c.hasEnded() {
		return nil
	}
	var seen Usage
	seen.Tokens, seen.unseen = c.meteredUsage(seen)
	usage, back := o.finalUsage(seen, c.request.Estimate, c.wasSent(), ctx.Err() != nil)
	if back {
		return c.giveBackSoon(ctx)
	}
	usage, bad := c.possibleUsage(ctx, usage, nil)
	return errors.Join(bad, c.SettleSoon(ctx, usage))
}

// hasEnded reports whether the call was settled or given back, or has a record of a failed Settle. It takes the
// call's lock.
func (c *Call) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.record != nil || c.settled || c.rolledBack
}

// endWithUsage ends the call at its usage by calling settle, or at its meter's count if the usage has no
// tokens. Without either it calls Rollback, unless failure shows that the call was cut: then the prompt's
// estimate stays. It replaces an impossible usage and also returns an error.
func (c *Call) endWithUsage(ctx context.Context, usage Usage, failure error, settle func(context.Context, Usage) error) error {
	if usage.Tokens == (prices.Tokens{}) {
		usage.Tokens, usage.unseen = c.meteredUsage(usage)
	}
	if usage.isEmpty() {
		if c.hasEnded() || !wasCut(ctx, failure) {
			return c.Rollback(ctx)
		}
		usage.Tokens.Input, usage.unseen = c.request.Estimate.InputTokens, promptUnseen
	}
	if usage.Status == "" {
		usage.Status = statusOf(ctx, failure)
	}
	usage, bad := c.possibleUsage(ctx, usage, failure)
	return errors.Join(bad, settle(ctx, usage))
}

// possibleUsage returns a valid usage unchanged. It replaces an impossible status, or else the whole usage by
// the meter's count or the estimate. It then also returns an error, because no caller is left to correct the
// usage.
func (c *Call) possibleUsage(ctx context.Context, usage Usage, failure error) (Usage, error) {
	bad := checkUsage(usage)
	if bad == nil {
		return usage, nil
	}
	usage.Status = statusOf(ctx, failure)
	if usage.validate() == nil {
		return usage, fmt.Errorf("%w; the call is counted with status %s", bad, usage.Status)
	}
	usage = Usage{Status: usage.Status, Time: usage.Time}
	usage.Tokens, usage.unseen = c.meteredUsage(usage)
	if usage.Tokens == (prices.Tokens{}) || usage.validate() != nil {
		e := c.request.Estimate
		usage.Tokens, usage.unseen = prices.Tokens{Input: e.InputTokens, Output: min(e.mostOutput(), maxTokens)}, allUnseen
	}
	return usage, fmt.Errorf("%w; the call is counted at %+v instead", bad, usage.Tokens)
}

// meteredUsage returns the meter's count, and the parts of the usage that it lacks, at the estimate's charge.
// If u reports tools or sound, those are not lacking.
func (c *Call) meteredUsage(u Usage) (prices.Tokens, unseen) {
	t, unseen := c.Meter().billedUsage()
	if unseen == partsUnseen && !u.hasNoCostFields() {
		unseen = nothingUnseen
	}
	return t, unseen
}

// wasCut reports whether failure shows that the caller left: ctx has ended, or failure is a context's error. It
// is false for nil. The provider may have billed the prompt of a cut call.
func wasCut(ctx context.Context, failure error) bool {
	return failure != nil &&
		(ctx.Err() != nil || errors.Is(failure, context.Canceled) || errors.Is(failure, context.DeadlineExceeded))
}

// statusOf returns the record's status for the result of a call: StatusOK for nil, StatusCut if its caller
// left, else StatusError.
func statusOf(ctx context.Context, failure error) string {
	switch {
	case failure == nil:
		return StatusOK
	case wasCut(ctx, failure):
		return StatusCut
	}
	return StatusError
}

// checkUsable returns a *ValidationError for a call that Start did not return, or for a nil context.
func (c *Call) checkUsable(ctx context.Context) error {
	if c == nil || c.guard == nil {
		return invalid("call", "is nil; check the error of Start before using the call")
	}
	return problem.CheckContext(ctx, "llm")
}
