package ddb

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// trialRequests is the number of requests that go first after an outage.
	trialRequests = 8
	// trialTime bounds the time for which the others wait for an answer to them.
	trialTime = 250 * time.Millisecond
)

// gate lets a few requests go first when the table answers again. All idle connections were closed, so
// otherwise every caller would dial at once. The others follow the first answer to one of those requests, or
// trialTime.
type gate struct{ trial atomic.Pointer[trial] }

// trial is the phase in which a few requests go first.
type trial struct {
	// answers is the table's count of answers at the start of the trial.
	answers uint64
	slots   chan struct{}
	over    chan struct{}
}

// startTrial starts a trial, in which at most 8 requests at a time go; it ends by itself after 250 ms. answers
// is the number of answers that the table has given so far.
func (g *gate) startTrial(answers uint64) {
	t := &trial{answers: answers, slots: make(chan struct{}, trialRequests), over: make(chan struct{})}
	g.trial.Store(t)
	time.AfterFunc(trialTime, func() { g.endTrial(t) })
}

// endTrial ends a trial and lets all waiting requests go. It does nothing for nil or a trial that has ended.
func (g *gate) endTrial(t *trial) {
	if t != nil && g.trial.CompareAndSwap(t, nil) {
		close(t.over)
	}
}

// recordAnswer ends the trial after an outage if the answered request began in it; answers is the table's
// number of answers at the start of that request.
func (g *gate) recordAnswer(answers uint64) {
	if t := g.trial.Load(); t != nil && answers >= t.answers {
		g.endTrial(t)
	}
}

// enterTrial waits until a request may go: as one of at most 8 at a time during the trial, or once it is over.
// The caller must call leave after the request. It returns false if ctx ended first.
func (g *gate) enterTrial(ctx context.Context) (leave func(), ok bool) {
	t := g.trial.Load()
	if t == nil {
		return func() {}, true
	}
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots }, true
	case <-t.over:
		return func() {}, true
	case <-ctx.Done():
		return func() {}, false
	}
}
