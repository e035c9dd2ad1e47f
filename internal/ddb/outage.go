package ddb

import "time"

const (
	// fastFailure is the time within which a failure may be one server's. The table opens only after
	// fastNeeded such failures within fastFailure.
	fastFailure = 250 * time.Millisecond
	fastNeeded  = 3
	// firstProbe and longestProbe bound the waits between probes. The first probe is sent at once; then the
	// waits double.
	firstProbe, longestProbe = 500 * time.Millisecond, 10 * time.Second
	// lastingAfter is the length of an outage up to which callers that can wait for the first probe are not
	// refused.
	lastingAfter = 100 * time.Millisecond
	// flapWithin is the time after closing within which a new outage continues with the waits of the last.
	flapWithin = 10 * time.Second
)

// outage decides when a table stops answering and when it answers again. Its methods get events and their
// instants, and start nothing. It is open while the table does not answer.
type outage struct {
	open  bool
	since time.Time
	cause error

	// answers counts the answers of the table. If it changed during a request, another request was answered
	// meanwhile.
	answers    uint64
	lastAnswer time.Time
	// lastTry is the instant of the last failed try that was answered; zero without one.
	lastTry time.Time
	// fast are the instants of the quick failures since the last answer.
	fast []time.Time

	// closings counts the closings after an outage.
	closings uint64
	closed   time.Time // the last time

	// probes counts the probes of this outage. wait is the wait before the next probe, and next is its
	// instant.
	probes int
	wait   time.Duration
	next   time.Time
}

// recordAnswer counts an answer of the table at the time at, and forgets the quick failures before it. It
// returns true if the answer changes the state: it is the first one, or ends an outage.
func (o *outage) recordAnswer(at time.Time) (changed bool) {
	changed = o.open || o.answers == 0
	o.answers++
	o.lastAnswer = at
	o.fast = o.fast[:0]
	if o.open {
		o.open, o.since, o.cause = false, at, nil
		o.closed = at
		o.closings++
	}
	return changed
}

// recordSilence records that a request from began to at failed with cause and without an answer; whole means
// after its full time. It returns true if this begins an outage: no answer came since, by the count answers,
// and the failure was slow or the third. A new outage soon after another continues with the waits of that.
func (o *outage) recordSilence(began, at time.Time, answers uint64, whole bool, cause error) (changed bool) {
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

// countFast counts a quick failure without an answer, at the time at, and forgets those more than 250 ms
// before. It returns true if three are left, enough to begin an outage.
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

// countProbe counts a probe of the outage when it starts.
func (o *outage) countProbe() { o.probes++ }

// scheduleProbe doubles the wait, from 500 ms up to 10 s, and sets the time of the next probe, after one
// without an answer: half of the wait and up to another half at random. chance is in [0, 1).
func (o *outage) scheduleProbe(at time.Time, chance float64) {
	o.wait = min(max(2*o.wait, firstProbe), longestProbe)
	o.next = at.Add(o.wait/2 + time.Duration(chance*float64(o.wait/2)))
}

// retryAfter returns the time until the next probe; 0 if the table is closed. While a probe is in flight its
// end is unknown. It then returns the shortest wait between two probes.
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
