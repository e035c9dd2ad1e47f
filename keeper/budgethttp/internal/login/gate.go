package login

import (
	"context"
	"errors"
	"sync"
)

// maxWaiting bounds the logins that wait for others at this process.
const maxWaiting = 4096

// errCrowded says that as many logins wait as may, or that one has waited long enough.
var errCrowded = errors.New("login: too many logins are under way")

// gates let so many at a time to each bucket, first come, first served; the rest waits. A
// bucket with nobody at it takes no room.
type gates struct {
	mu      sync.Mutex
	waiting int
	of      map[string]*gate
}

// gate is a bucket's.
type gate struct {
	places chan struct{} // who is in has put one
	users  int           // who is in, or waits
}

func newGates() *gates { return &gates{of: map[string]*gate{}} }

// enter waits for one of so many places at a bucket, until patience ends. Errors: errCrowded,
// and the context's.
func (g *gates) enter(ctx context.Context, patience <-chan struct{}, entity string, places int64) (leave func(), err error) {
	g.mu.Lock()
	at := g.of[entity]
	if at == nil {
		at = &gate{places: make(chan struct{}, places)}
		g.of[entity] = at
	}
	at.users++
	select {
	case at.places <- struct{}{}:
		g.mu.Unlock()
		return func() { <-at.places; g.left(entity, at) }, nil
	default:
	}
	if g.waiting >= maxWaiting {
		at.users--
		g.mu.Unlock()
		return nil, errCrowded
	}
	g.waiting++
	g.mu.Unlock()
	select {
	case at.places <- struct{}{}:
		leave = func() { <-at.places; g.left(entity, at) }
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-patience:
		err = errCrowded
	}
	if err != nil {
		g.left(entity, at)
	}
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
	return leave, err
}

// left notes that somebody is at a bucket no more.
func (g *gates) left(entity string, at *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(g.of, entity)
	}
}
