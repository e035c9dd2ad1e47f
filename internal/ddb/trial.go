package ddb

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// trialRequests is how many requests go first after an outage.
	trialRequests = 8
	// trialTime bounds how long the others wait for their answer.
	trialTime = 250 * time.Millisecond
)

// gate lets a few requests go first when the table answers again. All idle connections were
// closed, so every other caller would dial at once. The others follow the first answer to one
// of those requests, or trialTime.
type gate struct{ trial atomic.Pointer[trial] }

// trial is the time in which a few requests go first.
type trial struct {
	// answers is what the table had answered when the trial began.
	answers uint64
	slots   chan struct{}
	over    chan struct{}
}

// begin begins a trial, when the table had given so many answers.
func (g *gate) begin(answers uint64) {
	t := &trial{answers: answers, slots: make(chan struct{}, trialRequests), over: make(chan struct{})}
	g.trial.Store(t)
	time.AfterFunc(trialTime, func() { g.end(t) })
}

// end lets the others go.
func (g *gate) end(t *trial) {
	if t != nil && g.trial.CompareAndSwap(t, nil) {
		close(t.over)
	}
}

// answered notes an answer to a request that began when the table had given so many.
func (g *gate) answered(answers uint64) {
	if t := g.trial.Load(); t != nil && answers >= t.answers {
		g.end(t)
	}
}

// enter waits until a request may go; leave has to be called after it. It returns false if ctx
// ended first.
func (g *gate) enter(ctx context.Context) (leave func(), ok bool) {
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
