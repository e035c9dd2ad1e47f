package llm

import (
	"context"
	"sync"

	"github.com/dynalimit/dynalimit/prices"
)

// Meter counts a streamed reply as it arrives, so that a cut stream is
// settled at the counted tokens. It counts only tokens: Cost takes tools and sound from the
// estimate, unless Settle gets them. It is safe for concurrent use.
type Meter struct {
	call *Call

	mu   sync.Mutex
	seen prices.Tokens
	set  bool // the last count was the provider's own
}

// Meter returns the call's meter, always the same one. It is nil for a call that Start did not return.
func (c *Call) Meter() *Meter {
	if c == nil || c.guard == nil {
		return nil
	}
	c.meter.once.Do(func() { c.meter.Meter = &Meter{call: c} })
	return c.meter.Meter
}

// Add adds arrived tokens to the count. A meter without a call counts nothing, and its Close fails.
func (m *Meter) Add(t prices.Tokens) {
	m.updateCount(false, func(seen *prices.Tokens) {
		seen.Input += t.Input
		seen.CacheRead += t.CacheRead
		seen.CacheWrite5m += t.CacheWrite5m
		seen.CacheWrite1h += t.CacheWrite1h
		seen.Output += t.Output
	})
}

// Set replaces the count by the provider's cumulative count, which then counts as reported until the next Add.
// A meter without a call stays unchanged.
func (m *Meter) Set(t prices.Tokens) {
	m.updateCount(true, func(seen *prices.Tokens) { *seen = t })
}

// Seen returns the counted tokens so far, by class. They are zero for a nil meter.
func (m *Meter) Seen() prices.Tokens {
	if m == nil {
		return prices.Tokens{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// billedUsage returns the counted tokens, and the parts of the usage that they lack. For a reply without a
// counted prompt it adds the prompt's estimate. With nothing counted it returns zero tokens and nothingUnseen.
func (m *Meter) billedUsage() (prices.Tokens, unseen) {
	t := m.Seen()
	switch {
	case t == (prices.Tokens{}):
		return t, nothingUnseen
	case t.Output > 0 && inputTokens(t) == 0:
		t.Input = m.call.request.Estimate.InputTokens
		return t, promptUnseen
	}
	return t, partsUnseen
}

// Close settles the call at the counted tokens. A reply without a reported prompt is charged the
// estimate of the prompt, and so is a call that ctx ended before its first token, because its prompt
// was on its way. A stream that ended without any usage keeps its whole estimate, because it was billed.
// Call Rollback before Close if nothing was sent. Close continues after ctx has ended; the record's
// status is then StatusCut. It settles in the background; errors are those of SettleSoon.
func (m *Meter) Close(ctx context.Context) error {
	var c *Call
	if m != nil {
		c = m.call
	}
	if err := c.checkUsable(ctx); err != nil {
		return err
	}
	var usage Usage
	if ctx.Err() == nil && m.Seen() == (prices.Tokens{}) && !c.hasEnded() {
		usage.Tokens, usage.unseen = c.request.Estimate.likelyTokens(), allUnseen
	}
	return c.endWithUsage(ctx, usage, ctx.Err(), c.SettleSoon)
}

// updateCount calls change with the count under the meter's lock. With set the count becomes the provider's
// own, otherwise a metered one. It does nothing for a meter without a call.
func (m *Meter) updateCount(set bool, change func(*prices.Tokens)) {
	if m == nil || m.call == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.seen)
	m.set = set
}

// isSet reports whether Set made the last count: it is the provider's own.
func (m *Meter) isSet() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.set
}
