package dynalimit

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// heardCorrection is a lease correction to report to the observer. It is nil if the observer has no
// function for corrections.
type heardCorrection struct {
	desk   *desk
	began  time.Time
	before []plan.Signed
	event  observe.Correction
}

// hearCorrection starts the record of a lease correction for the observer. The lease's lock must be
// held.
func hearCorrection(kind observe.CorrectionKind, c *charge) *heardCorrection {
	return &heardCorrection{
		desk: c.desk, began: c.desk.stopwatch(), before: c.consumed,
		event: observe.Correction{EntityID: c.request.entity, Resource: c.request.resource, Kind: kind, Used: tokensOf(c.consumed), Change: map[string]int64{}},
	}
}

// note records the lease's amounts after the correction.
func (h *heardCorrection) note(consumed []plan.Signed) {
	h.event.Used = tokensOf(consumed)
	for _, a := range plan.Plus(consumed, plan.Negated(h.before)) {
		if a.Amount != 0 {
			h.event.Change[a.Name] = a.Amount / milli
		}
	}
}

// tell reports the end of the correction to the observer. The lease's lock must not be held.
func (h *heardCorrection) tell(ctx context.Context, err error) {
	h.event.Duration, h.event.Err = h.desk.stopwatch().Sub(h.began), err
	h.desk.observer.Corrected(ctx, h.event)
}

// failedOnTheWay reports whether an error means that something was tried, and was neither refused nor
// denied.
func failedOnTheWay(ctx context.Context, err error) bool {
	return unavailable(err) || errors.Is(err, ErrContended) || ctx.Err() != nil && errors.Is(err, ctx.Err())
}
