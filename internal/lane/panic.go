package lane

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// guard runs a part of the lane's work. If it panics, in our code or in an observer, the
// ops that the lane carries end with an error. So no caller waits for a lane that has
// stopped, and the process goes on.
func (l *Lane) guard(work func()) {
	defer func() {
		if p := recover(); p != nil {
			l.endPanicked(p, debug.Stack())
		}
	}()
	work()
}

// endPanicked ends every op that is being carried. A request that was sent may have
// landed.
func (l *Lane) endPanicked(p any, stack []byte) {
	err := &Failure{Reason: Panicked, Err: fmt.Errorf("%v", p)}
	l.owner.Log.ErrorContext(context.Background(), "panic in a lane",
		slog.String("entity", l.Entity), slog.String("resource", l.Resource), slog.Any("panic", p), slog.String("stack", string(stack)))
	l.mu.Lock()
	var carried []*Op
	for _, o := range l.queue {
		if o.state == opCarried || o.state == opPending {
			carried = append(carried, o)
		}
	}
	l.sight.drop() // whatever it saw, look again
	l.mu.Unlock()
	l.finish(carried, Result{Err: err, Unconfirmed: l.batchSent})
}
