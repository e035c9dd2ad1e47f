package lane

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// work counts the work in flight, so that Close can wait for it.
type work struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when nothing runs; made by the waiter
}

// Started counts a piece of work that has begun. Drain waits for it.
func (s *work) Started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// Stopped counts the end of a piece of work.
func (s *work) Stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Drain waits until nothing is in flight.
func (s *work) Drain(ctx context.Context) error {
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// some is a set of at most a number of things in the same condition. It is safe for concurrent use.
type some[K comparable] struct {
	most int
	mu   sync.Mutex
	set  map[K]struct{}
}

func (s *some[K]) add(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = map[K]struct{}{}
	}
	if len(s.set) < s.most {
		s.set[k] = struct{}{}
	}
}

func (s *some[K]) remove(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, k)
}

func (s *some[K]) all() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.set))
}
