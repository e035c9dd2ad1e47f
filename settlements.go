package dynalimit

import (
	"context"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/lane"
)

const (
	// mostSettling bounds the leases that a limiter settles behind their callers, and mostSettlingOf
	// those of one bucket: a bucket that hangs must not delay every caller.
	mostSettling   = 1024
	mostSettlingOf = 64
)

// settlements are the leases that are being settled behind their callers. The zero value is ready.
type settlements struct {
	mu     sync.Mutex
	leases int
	of     map[*lane.Lane]int
	// closed means that no further lease is taken. idle is closed when the last lease leaves; nil if
	// close does not wait. failed are the unconfirmed corrections since the close.
	closed bool
	idle   chan struct{}
	failed []*UnconfirmedError
}

// enter counts a lease that writes to lanes, for each of them too. It returns false, and counts nothing, if it
// counts 1,024 leases, or 64 of one of the lanes, already, or after close.
func (s *settlements) enter(lanes []*lane.Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.leases == mostSettling || slices.ContainsFunc(lanes, func(l *lane.Lane) bool { return s.of[l] == mostSettlingOf }) {
		return false
	}
	s.leases++
	for _, l := range lanes {
		if s.of == nil {
			s.of = map[*lane.Lane]int{}
		}
		s.of[l]++
	}
	return true
}

// leave ends the count of a lease, and wakes close after the last one. After close it keeps the lease's
// unconfirmed corrections for takeUnsettled.
func (s *settlements) leave(lanes []*lane.Lane, failed []*UnconfirmedError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		if s.of[l]--; s.of[l] == 0 {
			delete(s.of, l)
		}
	}
	if s.closed {
		s.failed = append(s.failed, failed...)
	}
	if s.leases--; s.leases == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// count returns the number of leases that are being settled.
func (s *settlements) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases
}

// close refuses further leases, and waits until the others have left or ctx ends. From then on leave keeps
// unconfirmed corrections.
func (s *settlements) close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	if s.leases == 0 {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// takeUnsettled returns an *UnsettledError for the leases that may not be settled; nil without such leases. It
// forgets the unconfirmed corrections, so that Close returns them once.
func (s *settlements) takeUnsettled() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases == 0 && len(s.failed) == 0 {
		return nil
	}
	e := &UnsettledError{Leases: s.leases, Levels: s.failed}
	s.failed = nil
	return e
}
