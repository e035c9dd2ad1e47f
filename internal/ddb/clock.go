package ddb

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// skewTolerance is the offset to DynamoDB's clock that is left alone: its Date
// header has whole seconds, so a smaller one cannot be told from none.
const skewTolerance = time.Second

// relearnAfter bounds how long an interval is narrowed: a drifting clock would make
// an old bound wrong.
const relearnAfter = 10 * time.Minute

// Clock is the one source of time. It learns the offset to DynamoDB from the
// Date of its answers: an answer dated D, asked at a and read at b, says that
// the server's clock was in [D, D+1 s) somewhere between, so the offset lies in
// (D-b, D+1s-a). Successive answers narrow the interval; one that contradicts
// it means that a clock stepped, and starts anew.
type Clock struct {
	source  func() time.Time
	correct bool

	// offset is what is added to the source; mu is held while it is set.
	offset atomic.Int64

	mu       sync.Mutex
	known    bool
	low, top time.Duration
	began    time.Time
}

// CheckSource says what is wrong with a source of time, or "" if nothing is; nil is
// none. What is stored are times after 1970, and up to the year 9999.
func CheckSource(source func() time.Time) string {
	if source == nil {
		return ""
	}
	if now := source(); now.Before(time.Unix(0, 0)) || now.Year() > 9999 {
		return fmt.Sprintf("says %v; give a clock between 1970 and 9999, or none for time.Now", now.Format(time.RFC3339))
	}
	return ""
}

// NewClock makes a clock over a source. Unless correct is set it is the source,
// whatever it observes.
func NewClock(source func() time.Time, correct bool) *Clock {
	return &Clock{source: source, correct: correct}
}

// Now is the time, corrected by what was observed.
func (c *Clock) Now() time.Time { return c.Corrected(c.source()) }

// Corrected is a time of Source, corrected by what was observed.
func (c *Clock) Corrected(t time.Time) time.Time {
	if offset := c.offset.Load(); offset != 0 {
		t = t.Add(time.Duration(offset))
	}
	return t
}

// NowMS is Now in milliseconds since 1970.
func (c *Clock) NowMS() int64 { return c.Now().UnixMilli() }

// SureMS is the latest time, in ms since 1970, that has surely passed by DynamoDB's clock, as
// far as that was learnt.
func (c *Clock) SureMS() int64 { return c.bound(&c.low) }

// LatestMS is the latest time, in ms since 1970, that it may be by DynamoDB's clock, as far as that
// was learnt.
func (c *Clock) LatestMS() int64 { return c.bound(&c.top) }

// bound is the time with a bound of the offset, which it reads with the lock held.
func (c *Clock) bound(offset *time.Duration) int64 {
	if !c.correct {
		return c.NowMS()
	}
	t := c.source()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		t = t.Add(*offset)
	}
	return t.UnixMilli()
}

// Corrects reports whether the clock is corrected by what it observes.
func (c *Clock) Corrects() bool { return c.correct }

// Source is the time as this process has it, uncorrected.
func (c *Clock) Source() time.Time { return c.source() }

// Observe learns from the Date of an answer to a request made at asked, a time
// of Source, and read now.
func (c *Clock) Observe(header http.Header, asked time.Time) {
	if !c.correct {
		return
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		c.observe(date, asked, c.source())
	}
}

func (c *Clock) observe(date, asked, read time.Time) {
	if date.IsZero() || read.Before(asked) {
		return
	}
	low, top := date.Sub(read), date.Add(time.Second).Sub(asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || low > c.top || top < c.low || read.Sub(c.began) > relearnAfter || read.Before(c.began) {
		c.known, c.low, c.top, c.began = true, low, top, read
	} else {
		c.low, c.top = max(c.low, low), min(c.top, top)
	}
	offset := time.Duration(0)
	if mid := c.low + (c.top-c.low)/2; mid > skewTolerance || mid < -skewTolerance {
		offset = mid
	}
	c.offset.Store(int64(offset))
}
