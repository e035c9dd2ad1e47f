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

// callObserver calls one function of the observer, if it is set.
func callObserver[E any](s *shielded, hear func(E), e E) {
	if hear == nil {
		return
	}
	if ended, ok := errors.AsType[*guard.Ended](guard.Apart(func() error { hear(e); return nil })); ok {
		err := fmt.Errorf("aggregator: the TailObserver did not return: %w\n%s", ended, ended.Stack)
		s.first.CompareAndSwap(nil, &err)
	}
}

// failure is the first panic since the last call; nil for none.
func (s *shielded) failure() error {
	if first := s.first.Swap(nil); first != nil {
		return *first
	}
	return nil
}
