package budget

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// exceeded is the error when no label has room. Where only holds are in the way,
// it says when they end.
func (s *standing) exceeded(ctx context.Context, out *outlook) *QuotaExceededError {
	err := out.exceeded()
	if out.bySpend() == len(out.labels) {
		return err
	}
	holds := out.board.Holds(ctx)
	for _, l := range out.labels {
		if at, ok := l.freeOfHolds(out, holds); ok && at.Before(err.RetryAt) {
			err.RetryAt = at
		}
	}
	return err
}

// freeOfHolds is when enough holds have ended for a label to have room.
func (l labelState) freeOfHolds(out *outlook, holds []*ledger.Hold) (time.Time, bool) {
	if !l.priced || l.selectable(out.tight) {
		return time.Time{}, false
	}
	var last time.Time
	check := func(ref store.Key, a ledger.Amount, quota int64) bool {
		missing := a.Sum().Sub(money.FromMicros(quota)).Add(money.Of(1))
		if missing.Sign() <= 0 {
			return true
		}
		at, ok := ledger.FreeWhen(holds, ref, missing)
		last = calendar.Latest(last, at)
		return ok
	}
	ok := check(ledger.LabelDay(out.scope, l.label, out.day), l.Amount, l.quota)
	for _, lim := range l.limits {
		ok = ok && check(lim.quota.limit().Ref(out.scope, out.day), lim.Amount, lim.quota.Micros)
	}
	return last, ok
}
