package denials

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit"
)

var _ dynalimit.Observer = (*Recorder)(nil)

// first is the observer that is told first; one that hears nothing for a Recorder that New
// did not make, which counts nothing either.
func (r *Recorder) first() dynalimit.Observer {
	if r == nil || r.next == nil {
		return dynalimit.NopObserver{}
	}
	return r.next
}

// AcquireEnd counts the limits that denied the acquire, once Options.Next was told of it.
func (r *Recorder) AcquireEnd(ctx context.Context, e dynalimit.AcquireEnd) {
	r.first().AcquireEnd(ctx, e)
	if e.Err == nil || r == nil || r.client == nil {
		return
	}
	if denial, ok := errors.AsType[*dynalimit.LimitExceededError](e.Err); ok && denial != nil {
		r.count(denial, time.Now())
	}
}

// AcquireStart tells Options.Next.
func (r *Recorder) AcquireStart(ctx context.Context, e dynalimit.AcquireStart) context.Context {
	return r.first().AcquireStart(ctx, e)
}

// WriteStart tells Options.Next.
func (r *Recorder) WriteStart(ctx context.Context, e dynalimit.WriteStart) context.Context {
	return r.first().WriteStart(ctx, e)
}

// WriteEnd tells Options.Next.
func (r *Recorder) WriteEnd(ctx context.Context, e dynalimit.WriteEnd) { r.first().WriteEnd(ctx, e) }

// AvailabilityChanged tells Options.Next.
func (r *Recorder) AvailabilityChanged(e dynalimit.AvailabilityChange) {
	r.first().AvailabilityChanged(e)
}

// PacingChanged tells Options.Next.
func (r *Recorder) PacingChanged(e dynalimit.PacingChange) { r.first().PacingChanged(e) }
