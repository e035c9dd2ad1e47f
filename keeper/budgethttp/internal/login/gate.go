package login

import (
	"context"
	"errors"
	"sync"
)

// maxWaiting is the maximal number of waiting logins in this process.
const maxWaiting = 4096

// errCrowded means that too many logins wait, or that this login has waited too long.
var errCrowded = errors.New("login: too many logins are in flight")

// gates limits the number of concurrent logins of each bucket, first come, first served. A gate
// without users is removed.
type gates struct {
	mu       sync.Mutex
	waiting  int
	byEntity map[string]*gate
}

// gate is the gate of one bucket.
type gate struct {
	places chan struct{} // one element per admitted login
	users  int           // admitted and waiting logins
}

// newGates returns an empty set of gates.
func newGates() *gates { return &gates{byEntity: map[string]*gate{}} }

// enterGate waits until fewer than places logins of the bucket are in progress, and returns the function that
// ends this one. It returns errCrowded if patience closes or too many logins wait, or the cause of ctx's end.
func (g *gates) enterGate(ctx context.Context, patience <-chan struct{}, entity string, places int64) (leave func(), err error) {
	g.mu.Lock()
	at := g.byEntity[entity]
	if at == nil {
		at = &gate{places: make(chan struct{}, places)}
		g.byEntity[entity] = at
	}
	at.users++
	select {
	case at.places <- struct{}{}:
		g.mu.Unlock()
		return func() { <-at.places; g.leaveGate(entity, at) }, nil
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
		leave = func() { <-at.places; g.leaveGate(entity, at) }
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-patience:
		err = errCrowded
	}
	if err != nil {
		g.leaveGate(entity, at)
	}
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
	return leave, err
}

// leaveGate removes a login from a bucket's gate, and removes the gate after the last one.
func (g *gates) leaveGate(entity string, at *gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(g.byEntity, entity)
	}
}
