package dynalimit

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/observe"
)

// shielded wraps an observer: it logs panics and stops them, because they would lose a granted lease or
// end the process. An event without a context is rare, and may come from a goroutine of the limiter.
// The observer gets it on a goroutine of its own, which it may end.
func shielded(o observe.Observer, log *slog.Logger) observe.Observer {
	return observe.Observer{
		AcquireStart: shieldStart(log, o.AcquireStart), AcquireEnd: shieldCall(log, o.AcquireEnd),
		Denied: shieldCall(log, o.Denied), Corrected: shieldCall(log, o.Corrected), Overran: shield(log, o.Overran),
		WriteStart: shieldStart(log, o.WriteStart), WriteEnd: shieldCall(log, o.WriteEnd),
		ConfigLoaded: shield(log, o.ConfigLoaded), AvailabilityChanged: shield(log, o.AvailabilityChanged),
		PacingChanged: shield(log, o.PacingChanged), Dropped: shield(log, o.Dropped),
	}
}

func shield[E any](log *slog.Logger, hear func(E)) func(E) {
	if hear == nil {
		return nil
	}
	return func(e E) {
		if ended, ok := errors.AsType[*guard.Ended](guard.Apart(func() error { hear(e); return nil })); ok {
			logEnded(log, ended)
		}
	}
}

func shieldCall[E any](log *slog.Logger, hear func(context.Context, E)) func(context.Context, E) {
	if hear == nil {
		return nil
	}
	return func(ctx context.Context, e E) {
		guard.Call(func() { hear(ctx, e) }, func(ended *guard.Ended) { logEnded(log, ended) })
	}
}

func shieldStart[E any](log *slog.Logger, hear func(context.Context, E) context.Context) func(context.Context, E) context.Context {
	if hear == nil {
		return nil
	}
	return func(ctx context.Context, e E) (heard context.Context) {
		guard.Call(func() { heard = hear(ctx, e) }, func(ended *guard.Ended) { logEnded(log, ended) })
		return heard
	}
}

func logEnded(log *slog.Logger, e *guard.Ended) {
	log.Error("dynalimit: the observer did not return", slog.Any("cause", e), slog.String("stack", string(e.Stack)))
}
