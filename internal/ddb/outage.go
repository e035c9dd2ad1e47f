package ddb

import "time"

const (
	// fastFailure is how soon a failure comes that may be one server's: of such,
	// fastNeeded within fastFailure open the table.
	fastFailure = 250 * time.Millisecond
	fastNeeded  = 3
	// firstProbe and longestProbe bound the waits between probes: the first comes
	// at once, then they double.
	firstProbe, longestProbe = 500 * time.Millisecond, 10 * time.Second
	// lastingAfter is how long an outage may be without anybody being refused who can
	// wait for the first probe.
	lastingAfter = 100 * time.Millisecond
	// flapWithin is how soon after closing a table that opens again goes on with
	// the waits where they were.
	flapWithin = 10 * time.Second
)

// outage decides when a table stops answering and when it answers again. It is told what
// happened and when, and starts nothing. It is open while the table does not answer.
type outage struct {
	open  bool
	since time.Time
	cause error

	// answers counts what the table answered: a request that began at one count
	// and ended at another was not the only one under way.
	answers    uint64
	lastAnswer time.Time
	// fast are the last failures without an answer that came quickly, since the last
	// answer.
	fast []time.Time

	// closings counts how often the table was closed after an outage.
	closings uint64
	closed   time.Time // the last time

	// probes counts those of this outage; wait is the one before the next, and
	// next is when it is due.
	probes int
	wait   time.Duration
	next   time.Time
}

// answered notes an answer; true if it closed the table.
func (o *outage) answered(at time.Time) (changed bool) {
	o.answers++
	o.lastAnswer = at
	o.fast = o.fast[:0]
	if !o.open {
		return false
	}
	o.open, o.since, o.cause = false, at, nil
	o.closed = at
	o.closings++
	return true
}

// silence notes that a request got no answer. It began at began, when the table had
// given so many answers; whole means that it was given its full time. It returns true if
// this opened the table.
func (o *outage) silence(began, at time.Time, answers uint64, whole bool, cause error) (changed bool) {
	if o.open || answers != o.answers {
		return false
	}
	if !whole && at.Sub(began) < fastFailure && !o.countFast(at) {
		return false
	}
	o.open, o.since, o.cause = true, at, cause
	o.fast = o.fast[:0]
	o.probes, o.next = 0, at
	if o.closed.IsZero() || at.Sub(o.closed) >= flapWithin {
		o.wait = 0
	} else {
		o.next = at.Add(o.wait)
	}
	return true
}

// countFast counts a failure without an answer that came quickly. It returns true if
// there were enough of them.
func (o *outage) countFast(at time.Time) bool {
	kept := o.fast[:0]
	for _, t := range o.fast {
		if at.Sub(t) <= fastFailure {
			kept = append(kept, t)
		}
	}
	o.fast = append(kept, at)
	return len(o.fast) >= fastNeeded
}

// probing notes that a probe is sent.
func (o *outage) probing() { o.probes++ }

// probed notes that a probe got no answer. The next one is due after half of the wait
// and up to another half at random; chance is in [0, 1).
func (o *outage) probed(at time.Time, chance float64) {
	o.wait = min(max(2*o.wait, firstProbe), longestProbe)
	o.next = at.Add(o.wait/2 + time.Duration(chance*float64(o.wait/2)))
}

// retryAfter is the time until the next probe; 0 when the table is closed. While
// a probe is under way nobody knows when the next is due: then it is the shortest
// wait between two.
func (o *outage) retryAfter(now time.Time) time.Duration {
	switch wait := o.next.Sub(now); {
	case !o.open:
		return 0
	case wait > 0:
		return wait
	default:
		return firstProbe / 2
	}
}
