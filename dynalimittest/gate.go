package dynalimittest

import (
	"context"
	"sync"
	"time"
)

// gate lets calls of the service in. A call that is to be denied is alone, because others would find
// their limits exhausted too.
type gate struct {
	mu sync.Mutex
	// inside is how many calls are in that are not to be denied.
	inside int
	// free is closed when the call that is to be denied has left; nil if none is in.
	free chan struct{}
	// empty is closed when no other call is inside; nil if no call waits for that.
	empty chan struct{}
}

// enter waits while a call runs alone, or until ctx ends, and returns leave, which ends the call. With alone it
// then waits for the end of the other calls, for settles at most, because a Wait may last. After ctx's end a
// call may begin beside one that runs alone.
func (g *gate) enter(ctx context.Context, alone bool, settles time.Duration) (leave func()) {
	g.mu.Lock()
	for g.free != nil && ctx.Err() == nil {
		free := g.free
		g.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
		}
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	if !alone || g.free != nil {
		g.inside++
		return g.leave
	}
	free, empty := make(chan struct{}), make(chan struct{})
	g.free = free
	if g.inside > 0 {
		g.empty = empty
		g.mu.Unlock()
		settled := time.NewTimer(settles)
		defer settled.Stop()
		select {
		case <-empty:
		case <-settled.C:
		}
		g.mu.Lock()
		g.empty = nil
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.free = nil
		close(free)
	}
}

// leave ends a call that is not alone. After the last one it wakes the call that waits to be
// alone.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}
