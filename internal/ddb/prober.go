package ddb

import (
	"context"
	"time"
)

// probe sends probes to the table until it answers, or ctx ends. There is one per outage, with one request in
// flight at a time.
func (b *Breaker) probe(ctx context.Context) {
	for {
		wait, ok := b.untilProbe(ctx)
		if !ok || !Sleep(ctx, wait) {
			return
		}
		if !b.probing(ctx) {
			return
		}
		d := askAnew(ctx, b.opts.Probe)
		if !b.probed(ctx, d) {
			return
		}
	}
}

// ongoing reports whether ctx's outage is still on. b.mu must be held.
func (b *Breaker) ongoing(ctx context.Context) bool { return ctx.Err() == nil && b.outage.open }

// untilProbe returns the wait until the next probe. It returns false if ctx's outage is over.
func (b *Breaker) untilProbe(ctx context.Context) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outage.next.Sub(b.opts.Now()), b.ongoing(ctx)
}

// probing counts and publishes the start of a probe. It returns false if the outage that ctx belongs to is
// over.
func (b *Breaker) probing(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ongoing(ctx) {
		return false
	}
	b.outage.countProbe()
	b.publish()
	return true
}

// probed records the diagnosis of a probe and reports changes. An answer closes the breaker. It returns true
// if another probe is needed.
func (b *Breaker) probed(ctx context.Context, d Diagnosis) bool {
	defer b.reportChanges()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ongoing(ctx) {
		return false
	}
	if d.Answered {
		b.answered(b.opts.Now())
		return false
	}
	b.outage.probed(b.opts.Now(), b.opts.Chance())
	b.publish()
	return true
}
