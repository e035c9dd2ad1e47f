package aggregator

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// shielded is an observer with what keeps the first of what it panics with.
type shielded struct {
	TailObserver
	first atomic.Pointer[error]
}

// tell has the observer hear of something, if it does.
func tell[E any](s *shielded, hear func(E), e E) {
	if hear == nil {
		return
	}
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
