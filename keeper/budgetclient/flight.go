package budgetclient

import (
	"context"
	"sync"
)

// flight lets those who want the same at the same time wait for one of them.
type flight[T any] struct {
	mu      sync.Mutex
	running *run[T]
}

type run[T any] struct {
	done  chan struct{}
	value T
	err   error
	left  bool // its caller's ctx ended, or it panicked: that says nothing to the others
}

// do runs f, or waits for the one that runs, as long as ctx lasts.
func (f *flight[T]) do(ctx context.Context, get func(context.Context) (T, error)) (T, error) {
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
			return none, &unanswered{err: ctx.Err()}
		}
	}
}

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
