package lane

import (
	"sync/atomic"
	"time"
)

const (
	// MostPause bounds one pause.
	MostPause = 30 * time.Second
	// PauseMargin is the least difference to a known end for which a pause is written again. It is also
	// added to a pause where clocks are not corrected.
	PauseMargin = time.Second
)

// LatestPause returns the latest end of a pause that a process accepts at now, in Unix ms. A wrong
// clock wrote a later one.
func LatestPause(now int64) int64 { return now + (MostPause + PauseMargin).Milliseconds() }

// Pause is the end of a bucket's pause, as far as this process knows. The zero value is not paused. It
// is atomic, so callers read it without a lock.
type Pause struct{ known atomic.Pointer[knownPause] }

// knownPause is a pause as this process knows it.
type knownPause struct {
	until int64
	// shown is the end in the last image. Each end is learnt, and bounded, once.
	shown int64
}

// Until returns the end in Unix ms; 0 if the bucket is not paused.
func (p *Pause) Until() int64 {
	if known := p.known.Load(); known != nil {
		return known.until
	}
	return 0
}

// change replaces the known pause with next's, unless next returns false.
func (p *Pause) change(next func(knownPause) (knownPause, bool)) bool {
	for {
		at, was := p.known.Load(), knownPause{}
		if at != nil {
			was = *at
		}
		now, changed := next(was)
		if !changed {
			return false
		}
		if p.known.CompareAndSwap(at, &now) {
			return true
		}
	}
}

// Raise sets the end, unless that is less than margin ms after the known one.
func (p *Pause) Raise(until, margin int64) bool {
	return p.change(func(k knownPause) (knownPause, bool) { return knownPause{until, k.shown}, k.until+margin < until })
}

// Lift ends the pause.
func (p *Pause) Lift() {
	p.change(func(k knownPause) (knownPause, bool) { return knownPause{0, k.shown}, k.until != 0 })
}

// learn takes the end that an image of the bucket shows at now, 0 without a pause. A later end
// lengthens the pause. If it is gone or earlier, some process lifted the pause.
func (p *Pause) learn(end int64, now func() int64) {
	if known := p.known.Load(); known == nil && end == 0 || known != nil && known.shown == end {
		return // the end is known, and its bound may differ by now
	}
	latest := LatestPause(now())
	p.change(func(k knownPause) (knownPause, bool) {
		bounded := min(end, latest)
		if end > k.shown {
			bounded = max(bounded, k.until)
		}
		return knownPause{bounded, end}, end != k.shown
	})
}
