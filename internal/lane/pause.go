package lane

import (
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// MostPause bounds one pause. PauseMargin is by how much a known one has to end earlier to be
	// written anew, and what is added to one where clocks are not corrected.
	MostPause   = 30 * time.Second
	PauseMargin = time.Second
)

// LatestPause is the latest end of a pause that a process takes at now, in Unix ms: a later one was
// written by a wrong clock.
func LatestPause(now int64) int64 { return now + (MostPause + PauseMargin).Milliseconds() }

// Pause is until when nothing may be taken from a bucket, as far as this process knows. The zero
// value is none. It is atomic, so callers look at it without a lock.
type Pause struct {
	until atomic.Int64
	// shown is the end that an image showed last. Each is learnt once, and bounded then.
	shown atomic.Int64
}

// Until is the instant in Unix ms; 0 for none.
func (p *Pause) Until() int64 { return p.until.Load() }

// Raise makes it an instant, unless that is less than margin ms later.
func (p *Pause) Raise(until, margin int64) bool {
	for was := p.until.Load(); was+margin < until; was = p.until.Load() {
		if p.until.CompareAndSwap(was, until) {
			return true
		}
	}
	return false
}

// Lift ends it.
func (p *Pause) Lift() { p.until.Store(0) }

// learn takes what an image of the bucket shows at now: a later end lengthens the pause, and one
// that is gone or earlier was lifted by somebody.
func (p *Pause) learn(image *schema.Image, now func() int64) {
	if image == nil {
		return
	}
	end, was := image.PausedUntil(), p.shown.Load()
	switch {
	case end == was || !p.shown.CompareAndSwap(was, end):
	case end < was:
		p.until.Store(min(end, LatestPause(now())))
	default:
		p.Raise(min(end, LatestPause(now())), 0)
	}
}
