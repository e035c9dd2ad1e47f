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

// New begins a life. It starts no goroutine.
func New() *Life {
	l := &Life{closing: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Context returns the context for writes. It outlives the caller's context and ends with
// Cancel.
func (l *Life) Context() context.Context { return l.ctx }

// Cancel cancels Context, which ends the remaining tasks.
func (l *Life) Cancel() { l.cancel() }

// Close prevents further tasks, except those of the closing, and closes the channel of Closing. Running tasks
// go on. Call it once: a second call panics.
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

// Begin registers a task, which must call Done at its end. It returns false after Close, unless atClose is
// true, for a task that belongs to the closing.
func (l *Life) Begin(atClose bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && !atClose {
		return false
	}
	l.tasks.Add(1)
	return true
}

// Done ends a task that Begin registered.
func (l *Life) Done() { l.tasks.Done() }

// Wait blocks until all tasks have ended.
func (l *Life) Wait() { l.tasks.Wait() }
