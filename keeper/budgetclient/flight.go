package budgetclient

import (
	"context"
	"sync"
)

// flight lets concurrent callers share one call.
type flight[T any] struct {
	mu      sync.Mutex
	running *run[T]
}

type run[T any] struct {
	done  chan struct{}
	value T
	err   error
	left  bool // the leader's ctx ended, or it panicked: the others must retry
}

// share calls get and returns its result to this caller and to those that join meanwhile. If the running
// caller's ctx ends, or it panics, another one calls get. It returns a *noResponse if ctx ends during the wait.
func (f *flight[T]) share(ctx context.Context, get func(context.Context) (T, error)) (T, error) {
	for {
		f.mu.Lock()
		r := f.running
		if r == nil {
			r = &run[T]{done: make(chan struct{}), left: true}
			f.running = r
			f.mu.Unlock()
			return f.lead(ctx, r, get)
		}
		f.mu.Unlock()
		select {
		case <-r.done:
			if !r.left {
				return r.value, r.err
			}
		case <-ctx.Done():
			var none T
			return none, &noResponse{err: ctx.Err()}
		}
	}
}

// lead calls get for the run r and returns its result, which it also stores in r for the waiting callers. It
// ends the run and wakes them, also after a panic. They try again if ctx has ended.
func (f *flight[T]) lead(ctx context.Context, r *run[T], get func(context.Context) (T, error)) (T, error) {
	defer func() {
		f.mu.Lock()
		f.running = nil
		f.mu.Unlock()
		close(r.done)
	}()
	r.value, r.err = get(ctx)
	r.left = r.err != nil && ctx.Err() != nil
	return r.value, r.err
}
