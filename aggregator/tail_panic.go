package aggregator

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// shielded passes everything on to an observer, and keeps the first of what it panics with.
type shielded struct {
	to    TailObserver
	first atomic.Pointer[error]
}

// tell has the observer hear of something.
func tell[E any](s *shielded, hear func(E), e E) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("aggregator: the TailObserver panicked: %v\n%s", p, debug.Stack())
			s.first.CompareAndSwap(nil, &err)
		}
	}()
	hear(e)
}

// failure is the first panic since the last call; nil for none.
func (s *shielded) failure() error {
	if first := s.first.Swap(nil); first != nil {
		return *first
	}
	return nil
}

var _ TailObserver = (*shielded)(nil)

// ShardChanged implements TailObserver.
func (s *shielded) ShardChanged(e ShardChange) { tell(s, s.to.ShardChanged, e) }

// Lagged implements TailObserver.
func (s *shielded) Lagged(e ShardLag) { tell(s, s.to.Lagged, e) }

// Processed implements TailObserver.
func (s *shielded) Processed(e RecordsProcessed) { tell(s, s.to.Processed, e) }

// Skipped implements TailObserver.
func (s *shielded) Skipped(e RecordSkipped) { tell(s, s.to.Skipped, e) }

// Trimmed implements TailObserver.
func (s *shielded) Trimmed(e ShardTrimmed) { tell(s, s.to.Trimmed, e) }

// Disordered implements TailObserver.
func (s *shielded) Disordered(e RecordDisordered) { tell(s, s.to.Disordered, e) }

// Retrying implements TailObserver.
func (s *shielded) Retrying(e TailRetry) { tell(s, s.to.Retrying, e) }
