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

// share calls get and returns its result. If another caller's get is running, it waits for that and returns the
// same result, unless that caller left; then it tries again. It returns a *noResponse if ctx ends during the
// wait.
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

// lead calls get for the run r and returns its result. It then ends the run, also after a panic, and wakes
// the callers that wait for it. They try again if get failed because ctx ended.
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
