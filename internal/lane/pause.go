package lane

import (
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Pause is until when nothing may be taken from a bucket, as far as this process knows: an
// instant that only grows. The zero value is none. It is atomic, so callers look at it without a
// lock.
type Pause struct{ until atomic.Int64 }

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

// learn takes what an image of the bucket shows.
func (p *Pause) learn(image *schema.Image) {
	if image != nil && image.PausedUntil() > 0 {
		p.Raise(image.PausedUntil(), 0)
	}
}
