package llm

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
)

// Source says where the tokens of a call are from.
type Source string

const (
	// Reported means that whoever settled the call said them, as a provider's usage does.
	Reported Source = "reported"
	// Metered means that they were counted as the reply arrived.
	Metered Source = "metered"
	// Estimated means that the estimate stands for some of them or for all.
	Estimated Source = "estimated"
)

// Settled is how a call ended, for invoices, logs and metrics. It is a plain value.
type Settled struct {
	// Request is the call's, with its RequestID; Model is what was called.
	Request Request
	Model   string
	// Tokens are what was counted, and Source where they are from; empty for a call that was
	// given back.
	Tokens budget.Tokens
	Source Source
	// CostMicros is what the dearest limit that Cost measures was charged, in micro-dollars; 0
	// if it measures none.
	CostMicros int64
	// Status is the record's; empty for a call that was given back.
	Status string
	// Statuses are the limits after the last answer, as Lease.Statuses has them.
	Statuses []dynalimit.LimitStatus
	// Err is what is not known to be written; nil if nothing.
	Err error
}

// SettleSoon is Settle for a caller who has an answer to pass on: what the call gives back is
// written behind him, as by dynalimit.Lease.SettleSoon, and his next call is decided with it.
// Options.OnSettled is told what became of it. Errors as of Settle, of what was done at once.
func (c *Call) SettleSoon(ctx context.Context, usage Usage) error {
	if err := c.usable(ctx); err != nil {
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
	amounts, err := c.amounts()
	if err != nil { // Settle says so, and counts the call all the same
		c.mu.Unlock()
		return c.Settle(ctx, usage)
	}
	c.settled = true
	told, follow := c.settledAs(amounts), c.guard.records.follow()
	c.mu.Unlock()
	ended := false
	leaseErr := c.lease.SettleSoon(ctx, amounts, func(err error) {
		ended = true
		told(err)
		follow()
	})
	if leaseErr != nil && !ended { // it was to be charged more, at once
		told(leaseErr)
		follow()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = leaseErr == nil || ended
	ctx, cancel := c.guard.lasting(ctx)
	defer cancel()
	return c.unsettled(c.handOver(ctx), leaseErr)
}

// settledAs tells once how the call ended, with what its limits were charged; nil for a call that
// was given back. The call's lock must be held, and must not be when that is told.
func (c *Call) settledAs(amounts dynalimit.Amounts) (tell func(error)) {
	if c.told || c.guard.opts.OnSettled == nil {
		return func(error) {}
	}
	c.told = true
	s := Settled{Request: c.request, Model: c.Model}
	s.Request.RequestID = c.RequestID
	if c.record != nil {
		s.Tokens, s.Status, s.Source = c.record.Tokens, c.record.Status, c.source()
	}
	for name := range c.need.money {
		s.CostMicros = max(s.CostMicros, amounts[name])
	}
	return func(err error) {
		s.Statuses, s.Err = c.lease.Statuses(), err
		c.guard.opts.OnSettled(s)
	}
}

// source says where the tokens of the record are from. The lock must be held.
func (c *Call) source() Source {
	switch {
	case c.used.unseen == promptUnseen || c.used.unseen == allUnseen:
		return Estimated
	case c.used.unseen == partsUnseen && !c.Meter().isSet():
		return Metered
	}
	return Reported
}

// unsettled is the error of what could not be written; nil if nothing. The lock must be held.
func (c *Call) unsettled(countErr, leaseErr error) error {
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
