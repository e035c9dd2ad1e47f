// Package guard runs code that is not ours: clients, transports, observers, callbacks. If it
// panics, or ends its goroutine with runtime.Goexit as t.FailNow does, that call ends, and
// nothing else.
package guard

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Ended is the error of a call that did not return.
type Ended struct {
	// Cause is the value of the panic; nil if f ended its goroutine.
	Cause any
	// Stack is where it was.
	Stack []byte
}

// Error returns the value of the panic as a text, or that the call ended its goroutine.
func (e *Ended) Error() string {
	if e.Cause == nil {
		return "the call ended its goroutine (runtime.Goexit)"
	}
	return fmt.Sprintf("panic: %v", e.Cause)
}

// Unwrap returns the value of the panic if it is an error, else nil.
func (e *Ended) Unwrap() error {
	err, _ := e.Cause.(error)
	return err
}

// Call calls f on this goroutine, and ended if f does not return. A panic of f stops there. Goexit cannot be
// stopped, so that code after Call does not run: ended must do its work.
func Call(f func(), ended func(*Ended)) {
	returned := false
	defer func() {
		if !returned {
			ended(&Ended{Cause: recover(), Stack: debug.Stack()})
		}
	}()
	f()
	returned = true
}

// Apart calls f on a goroutine of its own, waits for it, and returns its error. If f panics or ends its
// goroutine, the error is an *Ended.
func Apart(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		Call(func() { err = f() }, func(e *Ended) { err = e })
	}()
	<-done
	return err
}

// Group is an errgroup.Group in which a call that does not return counts as failed.
type Group struct {
	calls errgroup.Group
	// cancel ends the context of the group when a call fails; nil for none.
	cancel context.CancelCauseFunc

	mu sync.Mutex
	// failed is the first error.
	failed error
}

// WithContext returns a group, and a context that ends when a call of the group fails or Wait returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{cancel: cancel}, ctx
}

// SetLimit bounds the number of calls that run at once. It must be called before Go.
func (g *Group) SetLimit(n int) { g.calls.SetLimit(n) }

// Go calls f on a goroutine of its own. It first waits while as many calls run as the limit allows. A call that
// does not return counts as failed.
func (g *Group) Go(f func() error) {
	g.calls.Go(func() error {
		var err error
		Call(func() { err = f() }, func(e *Ended) { g.recordFailure(e) })
		if err != nil {
			g.recordFailure(err)
		}
		return nil
	})
}

// recordFailure keeps the first error and ends the context of the group. The other calls then fail because the
// context ended, and their errors are not the group's.
func (g *Group) recordFailure(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == nil {
		g.failed = err
	}
	g.cancelContext(err)
}

// cancelContext ends the context of the group with a cause. It does nothing for a group without a context.
func (g *Group) cancelContext(cause error) {
	if g.cancel != nil {
		g.cancel(cause)
	}
}

// Wait waits for all calls, ends the context of the group, and returns the first error.
func (g *Group) Wait() error {
	_ = g.calls.Wait() // the calls return none
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancelContext(g.failed)
	return g.failed
}
