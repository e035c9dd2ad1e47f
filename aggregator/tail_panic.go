package aggregator

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// shielded is an observer that keeps its first panic.
type shielded struct {
	TailObserver
	first atomic.Pointer[error]
}

// callObserver calls hear, a function of the observer, with the event e; it does nothing if hear is nil. It
// keeps the first panic in s as an error.
func callObserver[E any](s *shielded, hear func(E), e E) {
	if hear == nil {
		return
	}
	if ended, ok := errors.AsType[*guard.Ended](guard.Apart(func() error { hear(e); return nil })); ok {
		err := fmt.Errorf("aggregator: the TailObserver did not return: %w\n%s", ended, ended.Stack)
		s.first.CompareAndSwap(nil, &err)
	}
}

// takePanic returns the first panic of the observer since the last call as an error, or nil.
func (s *shielded) takePanic() error {
	if first := s.first.Swap(nil); first != nil {
		return *first
	}
	return nil
}
