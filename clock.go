package dynalimit

import (
	"sync"
	"time"
)

// skewTolerance is the offset to DynamoDB's clock that is left alone: its Date
// header has whole seconds, so a smaller one cannot be told from none.
const skewTolerance = time.Second

// clock is the one source of time. It learns the offset to DynamoDB from the
// Date of its answers: an answer dated D, asked at a and read at b, says that
// the server's clock was in [D, D+1 s) somewhere between, so the offset lies in
// (D-b, D+1s-a). Successive answers narrow the interval; one that contradicts
// it means that a clock stepped, and starts anew.
type clock struct {
	source  func() time.Time
	correct bool

	mu       sync.Mutex
	known    bool
	low, top time.Duration
	offset   time.Duration
	began    time.Time
}

// relearn bounds how long an interval is narrowed: a drifting clock would make
// an old bound wrong.
const relearn = 10 * time.Minute

func newClock(source func() time.Time, correct bool) *clock {
	return &clock{source: source, correct: correct}
}

// now is the corrected time.
func (c *clock) now() time.Time {
	t := c.source()
	if !c.correct {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.Add(c.offset)
}

func (c *clock) nowMS() int64 { return c.now().UnixMilli() }

// observe learns from an answer dated date, asked and read at uncorrected times.
func (c *clock) observe(date, asked, read time.Time) {
	if !c.correct || date.IsZero() || read.Before(asked) {
		return
	}
	low, top := date.Sub(read), date.Add(time.Second).Sub(asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || low > c.top || top < c.low || read.Sub(c.began) > relearn || read.Before(c.began) {
		c.known, c.low, c.top, c.began = true, low, top, read
	} else {
		c.low, c.top = max(c.low, low), min(c.top, top)
	}
	c.offset = 0
	if mid := c.low + (c.top-c.low)/2; mid > skewTolerance || mid < -skewTolerance {
		c.offset = mid
	}
}
