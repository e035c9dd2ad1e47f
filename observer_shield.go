package dynalimit

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/dynalimit/dynalimit/observe"
)

// shielded is an observer whose panics are logged and go no further: it is told in places where a
// panic would lose a lease that was granted, or end the process.
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
		defer logPanic(log)
		hear(e)
	}
}

func shieldCall[E any](log *slog.Logger, hear func(context.Context, E)) func(context.Context, E) {
	if hear == nil {
		return nil
	}
	return func(ctx context.Context, e E) {
		defer logPanic(log)
		hear(ctx, e)
	}
}

func shieldStart[E any](log *slog.Logger, hear func(context.Context, E) context.Context) func(context.Context, E) context.Context {
	if hear == nil {
		return nil
	}
	return func(ctx context.Context, e E) context.Context {
		defer logPanic(log)
		return hear(ctx, e)
	}
}

// logPanic ends a panic. It is deferred.
func logPanic(log *slog.Logger) {
	if p := recover(); p != nil {
		log.Error("dynalimit: the observer panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	}
}
