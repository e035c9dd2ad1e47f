package dynalimittest

import (
	"sync/atomic"
	"time"
)

// clock is a bubble's time, or one that stands still until it is moved.
type clock struct {
	bubble bool
	at     atomic.Int64 // in Unix nanoseconds, outside a bubble
}

// start is when every bubble of testing/synctest begins; no machine's clock is near it.
var start = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// startClock sets the clock to the bubble's, if the goroutine is in a bubble of testing/synctest, and else to
// midnight UTC of 2000-01-01.
func (c *clock) startClock() {
	c.bubble = inBubble()
	c.at.Store(start.UnixNano())
}

// inBubble reports whether the goroutine is in a bubble of testing/synctest, by the time, which begins in 2000
// there.
func inBubble() bool { return time.Now().Before(start.AddDate(10, 0, 0)) }

// settleTime returns how long a call that must be alone waits for others: 1 ns in a bubble of testing/synctest,
// else 1 s.
func (c *clock) settleTime() time.Duration {
	if c.bubble {
		return time.Nanosecond
	}
	return time.Second
}

// now returns the bubble's time, or the instant that moveTo last set.
func (c *clock) now() time.Time {
	if c.bubble {
		return time.Now()
	}
	return time.Unix(0, c.at.Load()).UTC()
}

// moveTo moves the clock to an instant, never back. In a bubble of testing/synctest it sleeps until then.
func (c *clock) moveTo(at time.Time) {
	if c.bubble {
		<-time.After(time.Until(at))
		return
	}
	for was := c.at.Load(); was < at.UnixNano() && !c.at.CompareAndSwap(was, at.UnixNano()); was = c.at.Load() {
	}
}
