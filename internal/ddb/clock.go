package ddb

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// skewTolerance is the largest offset to DynamoDB's clock that is ignored. Its Date header has whole seconds,
// so a smaller offset may be an error of the measurement.
const skewTolerance = time.Second

// relearnAfter is the time after which an interval starts anew. With a drifting clock an old bound would be
// wrong.
const relearnAfter = 10 * time.Minute

// Clock is the one source of time, and of order within the process. It learns the offset to DynamoDB from the Date of
// answers. An answer dated D, to a request sent at a and read at b, shows that the server's clock was in [D, D+1 s)
// between them, so the offset lies in (D-b, D+1s-a). Successive answers narrow the interval. A contradicting answer
// means that a clock stepped; the interval then starts anew.
type Clock struct {
	// Source returns the uncorrected time of this process. It never changes.
	Source  func() time.Time
	correct bool

	ticks atomic.Int64

	// offset is added to the source. mu is held while it is set.
	offset atomic.Int64

	mu       sync.Mutex
	known    bool
	low, top time.Duration
	began    time.Time
}

// CheckSource returns the fault of an option's source of time, or "". A nil source is good. The table stores
// times from 1970 up to the year 9999.
func CheckSource(source func() time.Time) string {
	if source == nil {
		return ""
	}
	if now := source(); now.Before(time.Unix(0, 0)) || now.Year() > 9999 {
		return fmt.Sprintf("says %v; give a clock between 1970 and 9999, or nil for time.Now", now.Format(time.RFC3339))
	}
	return ""
}

// NewClock returns a clock over a source. Unless correct is set, it never corrects the source.
func NewClock(source func() time.Time, correct bool) *Clock {
	return &Clock{Source: source, correct: correct}
}

// Now returns the source's present time plus the known offset to DynamoDB's clock.
func (c *Clock) Now() time.Time { return c.Corrected(c.Source()) }

// Corrected adds the known offset to DynamoDB's clock to a time of Source.
func (c *Clock) Corrected(t time.Time) time.Time { return t.Add(time.Duration(c.offset.Load())) }

// NowMS returns the source's present time plus the known offset to DynamoDB's clock, in Unix ms.
func (c *Clock) NowMS() int64 { return c.Source().Add(time.Duration(c.offset.Load())).UnixMilli() }

// Tick returns a number larger than every number it returned before. It orders, within the process, the start
// of config reads and the first sight of a bucket's config fingerprint.
func (c *Clock) Tick() int64 { return c.ticks.Add(1) }

// SureMS returns the latest time, in Unix ms, that has surely passed by DynamoDB's clock, as far as its offset
// is known. A clock that does not correct returns NowMS.
func (c *Clock) SureMS() int64 { return c.boundMS(&c.low) }

// LatestMS returns the latest possible time of DynamoDB's clock, in Unix ms, as far as its offset is known. A
// clock that does not correct returns NowMS.
func (c *Clock) LatestMS() int64 { return c.boundMS(&c.top) }

// boundMS returns the source's time plus an offset, in Unix ms. The offset is c.low or c.top, the bounds of the
// difference to DynamoDB's clock, which it reads under the lock. A clock that does not correct returns NowMS.
func (c *Clock) boundMS(offset *time.Duration) int64 {
	if !c.correct {
		return c.NowMS()
	}
	t := c.Source()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		t = t.Add(*offset)
	}
	return t.UnixMilli()
}

// Corrects reports whether the clock corrects its source.
func (c *Clock) Corrects() bool { return c.correct }

// Observe narrows the known offset by the Date of an answer read just now; asked is the source's time when the
// request was sent. A contradicting answer, or ten minutes, start it anew. Offsets up to a second are not
// corrected; nor is a clock that does not correct.
func (c *Clock) Observe(header http.Header, asked time.Time) {
	if !c.correct {
		return
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil || date.IsZero() {
		return
	}
	read := c.Source()
	if read.Before(asked) {
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
