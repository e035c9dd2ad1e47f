// Package background tracks background tasks, so that Close can wait for them.
package background

import (
	"context"
	"sync"
)

// Life is the lifetime of a keeper's background work. Tasks begin until Close, and Wait returns
// when the last one has ended.
type Life struct {
	ctx     context.Context
	cancel  context.CancelFunc
	closing chan struct{}
	tasks   Running

	mu     sync.Mutex
	closed bool
}

// New returns a Life that is open, has no tasks, and has a context of its own. It starts no goroutine.
func New() *Life {
	l := &Life{closing: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context returns the context for background writes. It does not depend on a caller's context, and only Cancel
// ends it; Close does not.
func (l *Life) Context() context.Context { return l.ctx }

// Cancel ends the context of Context, so that running tasks stop early. It does not wait for them, and Begin
// still works.
func (l *Life) Cancel() { l.cancel() }

// Close makes Begin refuse further tasks, except with atClose, and closes the channel of Closing. Running tasks
// go on, and Context stays valid. A second call panics.
func (l *Life) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	close(l.closing)
}

// Closing returns a channel that Close closes.
func (l *Life) Closing() <-chan struct{} { return l.closing }

// Closed reports whether Close was called.
func (l *Life) Closed() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// Begin counts a task as running, for Wait, and returns true; the task must call Done at its end. After Close
// it returns false and counts nothing, unless atClose is true.
func (l *Life) Begin(atClose bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && !atClose {
		return false
	}
	l.tasks.Add(1)
	return true
}

// Done counts one task, which Begin has counted, as ended. The last one wakes the callers of Wait.
func (l *Life) Done() { l.tasks.Done() }

// Wait blocks until all tasks that Begin counted have called Done. It does not stop them and does not prevent
// further ones.
func (l *Life) Wait() { l.tasks.Wait() }
