// Package background counts what goes on behind a caller's back, so that closing
// waits for it.
package background

import (
	"context"
	"sync"
)

// Life is how long a keeper works in the background: until Close, and what has
// begun by then.
type Life struct {
	ctx     context.Context
	cancel  context.CancelFunc
	closing chan struct{}
	tasks   Running

	mu     sync.Mutex
	closed bool
}

// New begins a life. It starts no goroutine.
func New() *Life {
	l := &Life{closing: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context is that of writes: it outlives a caller, and ends with Cancel.
func (l *Life) Context() context.Context { return l.ctx }

// Cancel ends what still goes on.
func (l *Life) Cancel() { l.cancel() }

// Close lets no more tasks begin, and closes Closing. It is called once.
func (l *Life) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	close(l.closing)
}

// Closing is closed when Close is called.
func (l *Life) Closing() <-chan struct{} { return l.closing }

// Closed says that Close was called.
func (l *Life) Closed() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// Begin counts a task, which ends with Done; false after Close, unless the task
// belongs to closing.
func (l *Life) Begin(atClose bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && !atClose {
		return false
	}
	l.tasks.Add(1)
	return true
}

// Done ends a task that Begin counted.
func (l *Life) Done() { l.tasks.Done() }

// Wait is until no task goes on.
func (l *Life) Wait() { l.tasks.Wait() }
