package ddb

import (
	"context"
	"time"
)

// runProbes sends probes to the table, one after the other, until it answers or ctx ends. Each outage starts it
// once.
func (b *Breaker) runProbes(ctx context.Context) {
	for {
		wait, ok := b.probeWait(ctx)
		if !ok || !Sleep(ctx, wait) {
			return
		}
		if !b.noteProbe(ctx) {
			return
		}
		d := probeAnew(ctx, b.opts.Probe)
		if !b.recordProbe(ctx, d) {
			return
		}
	}
}

// isOutageOf reports whether the outage that ctx was made for still lasts. b.mu must be held.
func (b *Breaker) isOutageOf(ctx context.Context) bool { return ctx.Err() == nil && b.outage.open }

// probeWait returns the time until the next probe is due. It returns false if ctx's outage is over.
func (b *Breaker) probeWait(ctx context.Context) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outage.next.Sub(b.opts.Now()), b.isOutageOf(ctx)
}

// noteProbe counts the start of a probe and publishes that; the caller sends the probe. It returns false, and
// counts nothing, if the outage that ctx belongs to is over.
func (b *Breaker) noteProbe(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOutageOf(ctx) {
		return false
	}
	b.outage.countProbe()
	b.publishState()
	return true
}

// recordProbe records the diagnosis of a probe and reports changes. An answer closes the breaker; otherwise it
// schedules the next probe and returns true. It returns false too, without a record, if the outage of ctx is
// over.
func (b *Breaker) recordProbe(ctx context.Context, d Diagnosis) bool {
	defer b.reportChanges()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOutageOf(ctx) {
		return false
	}
	if d.Answered {
		b.outage.recordAnswer(b.opts.Now()) // it ends the outage
		b.publishAnswer()
		return false
	}
	b.outage.scheduleProbe(b.opts.Now(), b.opts.Chance())
	b.publishState()
	return true
}
