package dynalimit

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Pause stops takes from a bucket for a while, in all processes. Use it when a provider reports that
// its limit is reached, for a call that the bucket admitted. Meanwhile acquires that charge the bucket
// fail with a *PausedError, and Wait waits. Pauses do not add up: the bucket keeps the latest end of
// all. A pause lasts at most 30 s, also for another process, whose clock may differ; pause again for
// more. Resume ends it earlier. why is logged.
//
// Other processes learn of it by their next answer from the bucket, and in a ChargeTransaction by their
// next read of it. Open leases go on. Nothing is consumed. A bucket that does not exist is paused in
// this process alone. A pause costs 1 write unit. It costs nothing if a known pause ends less than a
// second earlier.
//
// It is written even if ctx has ended, for Options.CleanupTimeout at most. Errors: *ValidationError,
// and *UnavailableError if the bucket could not be written: the pause holds in this process then.
func (l *RateLimiter) Pause(ctx context.Context, entity, resource string, d time.Duration, why string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if _, err := newReadRequest(entity, resource, nil, nil); err != nil {
		return err
	}
	if d <= 0 {
		return invalid("d", "is %v; give how long the provider wants to be left alone", d)
	}
	d = min(d, lane.MostPause)
	if !l.repo.clock.Corrects() {
		d += lane.PauseMargin
	}
	at := l.desk.lanes.Of(entity, resource)
	now := l.desk.nowMS()
	until := now + d.Milliseconds()
	if !at.Pause.Raise(until, lane.PauseMargin.Milliseconds()) {
		return nil
	}
	l.log.InfoContext(ctx, "dynalimit: a bucket is paused",
		slog.String("entity", entity), slog.String("resource", resource), slog.Duration("for", d), slog.String("why", why))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.desk.cleanup)
	defer cancel()
	return l.repo.buckets.WritePause(ctx, "pause the bucket", at.Key(), schema.PauseUntil(until, lane.LatestPause(now)))
}

// Resume ends the pause of a bucket (see Pause), of any process: its provider takes calls again, or it
// was paused by mistake. A bucket that is not paused stays as it is. This process's calls go on at
// once. Another process goes on with its next answer from the bucket, at the latest 31 s after it
// learnt of the pause. An answer from before Resume that arrives late restores the pause in its
// process, for at most 31 s. why is logged. It costs 1 write unit.
//
// It is written even if ctx has ended, for Options.CleanupTimeout at most. Errors: *ValidationError,
// and *UnavailableError if the bucket could not be written: the pause has ended in this process then.
func (l *RateLimiter) Resume(ctx context.Context, entity, resource, why string) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if _, err := newReadRequest(entity, resource, nil, nil); err != nil {
		return err
	}
	at := l.desk.lanes.Of(entity, resource)
	at.Pause.Lift()
	l.log.InfoContext(ctx, "dynalimit: a bucket is not paused any more",
		slog.String("entity", entity), slog.String("resource", resource), slog.String("why", why))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.desk.cleanup)
	defer cancel()
	return l.repo.buckets.WritePause(ctx, "end the pause of the bucket", at.Key(), schema.LiftPause())
}

// PausedError says that a bucket is paused, because a provider reported that its limit is reached
// (RateLimiter.Pause). Nothing was consumed.
type PausedError struct {
	// EntityID is the entity of the paused bucket: the call's, or a parent that it charges.
	EntityID string
	// Resource is the resource of the paused bucket: the call's, or a group that it charges.
	Resource string
	// RetryAfter is the time until the pause ends.
	RetryAfter time.Duration
}

// Error names the bucket and the wait.
func (e *PausedError) Error() string {
	return fmt.Sprintf("dynalimit: %s on %s is paused, because its provider said stop; retry after %v", e.EntityID, e.Resource, e.RetryAfter)
}

// RetryIn is RetryAfter.
func (e *PausedError) RetryIn() (time.Duration, bool) { return e.RetryAfter, true }

// Is matches ErrPaused.
func (e *PausedError) Is(target error) bool { return target == ErrPaused }

// spread returns the wait of a waiter: longer by up to a quarter, so that not all of them come back at
// once.
func (e *PausedError) spread() time.Duration { return e.RetryAfter + rand.N(e.RetryAfter/4+1) }

// pausedAmong returns the error of the longest pause of some buckets; nil if no bucket is paused.
func (d *desk) pausedAmong(n int, at func(i int) *lane.Lane) error {
	var longest *lane.Lane
	for i := range n {
		if l := at(i); l.Pause.Until() > 0 && (longest == nil || l.Pause.Until() > longest.Pause.Until()) {
			longest = l
		}
	}
	if longest == nil { // the usual case does not look at the clock
		return nil
	}
	left := longest.Pause.Until() - d.nowMS()
	if left <= 0 {
		return nil
	}
	return &PausedError{EntityID: longest.Entity, Resource: longest.Resource, RetryAfter: duration(left)}
}
