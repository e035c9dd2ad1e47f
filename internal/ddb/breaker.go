package ddb

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// BreakerOptions configures a Breaker.
type BreakerOptions struct {
	// Now is the clock for waits. Defaults to time.Now.
	Now func() time.Time
	// Probe sends a request to the table; a refusal is an answer too. It must bound its own time, and work
	// alone, because no request waits for it. Without a Probe only the answers to requests close the breaker.
	Probe func(context.Context) error
	// Chance is a number in [0, 1) that spreads probes. Defaults to rand.Float64.
	Chance func() float64
	// Logger gets one line per change of state. Defaults to silence.
	Logger *slog.Logger
	// OnChange is called for each change of state, one at a time and in order.
	OnChange func(State)
}

// State is the availability of a table.
type State struct {
	// Open means that the table does not answer, and that requests would be in vain.
	Open bool
	// Since is the instant of the last change; zero before the first.
	Since time.Time
	// Cause is the failure that opened the breaker, nil while it is closed.
	Cause error
	// NextProbe is the instant of the next probe, zero while the breaker is closed. Probes counts the probes
	// since it opened.
	NextProbe time.Time
	Probes    int
	// EverAnswered means that the table has answered at least once.
	EverAnswered bool
}

// Breaker tracks whether one table answers this process. It opens when a request got no answer, so that other
// requests need not wait for theirs. It closes with the first answer of any kind, to a probe in the
// background or to a request. It is safe for concurrent use; a nil Breaker is always closed.
type Breaker struct {
	opts BreakerOptions

	// view is the readers' copy of the state, so that concurrent callers do not wait for mu.
	view atomic.Pointer[breakerView]

	// gate lets a few requests go first after an outage. checks sends requests to the table when the watchdog
	// finds a request that waits too long on a pooled connection.
	gate     gate
	checks   checks
	watchdog watchdog

	mu     sync.Mutex
	outage outage
	// Readers wait for these channels. opened is closed as long as the table is open. closed is closed as
	// long as the table answers. lasting is closed once the table was open for longer than lastingAfter.
	opened, closed, lasting chan struct{}
	lastingTimer            *time.Timer
	// stopped means that nothing opens the breaker. epoch counts the calls of Stop: a request from before a
	// Stop opens nothing after it.
	stopped bool
	epoch   uint64
	// stopProbing ends the probes of an outage. It is nil without one.
	stopProbing context.CancelFunc
	// changes are the unreported changes. One goroutine at a time reports them.
	changes   []State
	reporting bool
}

// breakerView is the state of a breaker at one moment.
type breakerView struct {
	state                   State
	next                    time.Time // of State, or of the outage that has ended
	opened, closed, lasting chan struct{}
}

// publishState copies the state to b.view for State, Open and the channels, which take no lock. b.mu must be
// held.
func (b *Breaker) publishState() {
	b.view.Store(&breakerView{state: b.state(), next: b.outage.next, opened: b.opened, closed: b.closed, lasting: b.lasting})
}

// NewBreaker returns a closed breaker. It starts no goroutine; an outage does.
func NewBreaker(opts BreakerOptions) *Breaker {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Chance == nil {
		opts.Chance = rand.Float64
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Breaker{opts: opts, opened: make(chan struct{}), closed: make(chan struct{}), lasting: make(chan struct{})}
	close(b.closed)
	b.publishState()
	return b
}

// silentKey is the key in the context of requests to a bucket that is known not to answer.
type silentKey struct{}

// ContextOfSilent returns a context for requests to a bucket that is known not to answer. Their answers close the
// breaker, but their silence does not open it, because it says nothing of the table.
func ContextOfSilent(ctx context.Context) context.Context {
	return context.WithValue(ctx, silentKey{}, true)
}

// Call is one request to the table.
type Call struct {
	breaker        *Breaker
	began          time.Time
	answers, epoch uint64
	// silent means that the request's bucket is known not to answer.
	silent bool
}

// Begin starts a request to the table, so that its outcome can open or close the breaker. The caller must call
// End or Answer afterwards. A nil breaker returns a Call whose End changes nothing.
func (b *Breaker) Begin() Call {
	if b == nil {
		return Call{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Call{breaker: b, began: b.opts.Now(), answers: b.outage.answers, epoch: b.epoch}
}

// Answer reports to the breaker that the request succeeded, which closes it if it was open and may end the
// trial after an outage. It passes a change to the logger and to OnChange. It panics if the call's breaker is
// nil.
func (c Call) Answer() {
	b := c.breaker
	b.mu.Lock()
	now := b.opts.Now()
	if b.gate.trial.Load() != nil {
		b.gate.recordAnswer(c.answers)
	}
	if b.outage.recordAnswer(now) {
		b.publishAnswer()
	}
	changed := len(b.changes) > 0
	b.mu.Unlock()
	if changed {
		b.reportChanges()
	}
}

// End reports the outcome of the request to the breaker, which may open or close, and passes a change to the
// logger and to OnChange. It returns d corrected for this table: if that has answered before, an unknown host
// is an outage. RetryAfter is the time until the next probe, 0 while the breaker is closed.
func (c Call) End(d Diagnosis) Diagnosis {
	b := c.breaker
	if b == nil {
		return d
	}
	b.mu.Lock()
	if b.outage.answers > 0 {
		d = d.asProven()
	}
	now := b.opts.Now()
	switch {
	case d.Answered:
		b.gate.recordAnswer(c.answers)
		if b.outage.recordAnswer(now) {
			b.publishAnswer()
		}
	case d.Silent && !c.silent && !b.stopped && c.epoch == b.epoch && b.outage.recordSilence(c.began, now, c.answers, d.expired, withDiagnosis(d)):
		b.beginOutage()
	}
	d.RetryAfter = b.outage.retryAfter(now)
	b.mu.Unlock()
	b.reportChanges()
	return d
}

// publishAnswer publishes the state after an answer that changed it. If the breaker was open until then, it lets
// a few requests go first (the trial), wakes waiters, and queues the change for reportChanges. b.mu must be held.
func (b *Breaker) publishAnswer() {
	if !b.view.Load().state.Open { // the table's first answer
		b.publishState()
		return
	}
	b.gate.startTrial(b.outage.answers)
	b.endOutage()
	b.changes = append(b.changes, b.state())
}

// beginOutage publishes an outage that was just found, ends a trial, wakes waiters, queues the change for
// reportChanges, and starts the probes in a goroutine. b.mu must be held.
func (b *Breaker) beginOutage() {
	b.gate.endTrial(b.gate.trial.Load())
	b.closed = make(chan struct{})
	b.changes = append(b.changes, b.state())
	lasting := b.lasting
	b.lastingTimer = time.AfterFunc(lastingAfter, func() { b.noteLasting(lasting) })
	b.publishState() // before waiters wake up
	close(b.opened)
	if b.opts.Probe == nil {
		return
	}
	ctx, halt := context.WithCancel(context.Background())
	b.stopProbing = halt
	go b.runProbes(ctx)
}

// noteLasting closes the channel lasting, if the outage that it was made for still lasts.
func (b *Breaker) noteLasting(lasting chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage.open && lasting == b.lasting {
		close(lasting)
	}
}

// endOutage publishes the end of an outage, wakes waiters and stops the probes. b.mu must be held.
func (b *Breaker) endOutage() {
	b.opened = make(chan struct{})
	b.lastingTimer.Stop()
	if isClosed(b.lasting) { // longer than a moment
		b.lasting = make(chan struct{})
	}
	if b.stopProbing != nil {
		b.stopProbing()
		b.stopProbing = nil
	}
	b.publishState() // before waiters wake up
	close(b.closed)
}

// isClosed reports whether a channel on which nothing is sent is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// reportChanges passes changes to the logger and to OnChange, in order and without the lock. If another
// goroutine already reports changes, it leaves them to it.
func (b *Breaker) reportChanges() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reporting {
		return
	}
	b.reporting = true
	for len(b.changes) > 0 {
		s := b.changes[0]
		b.changes = b.changes[1:]
		b.mu.Unlock()
		_ = guard.Apart(func() error { // otherwise the next change would stay unreported
			b.logChange(s)
			if b.opts.OnChange != nil {
				b.opts.OnChange(s)
			}
			return nil
		})
		b.mu.Lock()
	}
	b.reporting = false
}

// logChange logs one change of state: a warning for an outage, an info for its end.
func (b *Breaker) logChange(s State) {
	if s.Open {
		b.opts.Logger.Warn("DynamoDB does not answer; calls follow their policy until it does", slog.Any("cause", s.Cause))
		return
	}
	b.opts.Logger.Info("DynamoDB answers again")
}

// logPanic logs that the user's client of DynamoDB panicked, or ended its goroutine, in a request. It does
// nothing for a nil breaker.
func (b *Breaker) logPanic(ctx context.Context, e *guard.Ended) {
	if b != nil {
		b.opts.Logger.ErrorContext(ctx, "the client of DynamoDB did not return from a request", slog.Any("cause", e), slog.String("stack", string(e.Stack)))
	}
}

// Stop ends the probes, the trial and the outage, because no caller needs them any more, without a report to
// the logger or OnChange. Nothing opens the breaker until Start, and never a request from before Stop. Answers
// still count.
func (b *Breaker) Stop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.epoch++
	b.checks.cancelCheck()
	b.gate.endTrial(b.gate.trial.Load())
	if b.outage.open {
		b.outage.open, b.outage.cause, b.outage.since = false, nil, b.opts.Now()
		b.endOutage()
	}
}

// Start lets requests that begin from now on open the breaker again, after Stop.
func (b *Breaker) Start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = false
}

// State returns the table's present state: open or closed, since when, and why. It is zero for nil.
func (b *Breaker) State() State {
	if b == nil {
		return State{}
	}
	return b.view.Load().state
}

// Open reports whether the table does not answer. It is false for a nil breaker.
func (b *Breaker) Open() bool { return b != nil && b.view.Load().state.Open }

// state returns the present state. b.mu must be held.
func (b *Breaker) state() State {
	o := &b.outage
	s := State{Open: o.open, Since: o.since, Cause: o.cause, EverAnswered: o.answers > 0}
	if o.open {
		s.NextProbe, s.Probes = o.next, o.probes
	}
	return s
}

// Opened returns a channel that is closed while the table is open; nil for a nil breaker. After an outage there
// is a new one.
func (b *Breaker) Opened() <-chan struct{} {
	if b == nil {
		return nil
	}
	return b.view.Load().opened
}

// Lasting returns a channel that is closed once the table has been open for 100 ms, time enough for an answer
// to the first probe. After such an outage there is a new one. It is nil for a nil breaker.
func (b *Breaker) Lasting() <-chan struct{} {
	if b == nil {
		return nil
	}
	return b.view.Load().lasting
}

// Closed returns a channel that is closed while the table answers; for a nil breaker it always is. Each outage
// has a new one.
func (b *Breaker) Closed() <-chan struct{} {
	if b == nil {
		return always
	}
	return b.view.Load().closed
}

// always is a closed channel.
var always = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// CountOutages returns the number of outages so far that ended with an answer, not with Stop; 0 for a nil
// breaker.
func (b *Breaker) CountOutages() uint64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outage.closings
}

// LastAnswer returns the instant of the table's last answer to a request or probe; zero without one, and for a
// nil breaker.
func (b *Breaker) LastAnswer() time.Time {
	if b == nil {
		return time.Time{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outage.lastAnswer
}

// recordTry records that one try of a request was answered, for AnsweredSince. It does nothing if b is nil.
func (b *Breaker) recordTry() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outage.lastTry = b.opts.Now()
}

// AnsweredSince reports whether the table answered a request, or one try of a request, after an instant. b must
// not be nil.
func (b *Breaker) AnsweredSince(since time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outage.lastAnswer.After(since) || b.outage.lastTry.After(since)
}

// RetryAfter returns the time until the next probe. It is 250 ms while a probe is in flight, and 0 while the
// breaker is closed, and for nil.
func (b *Breaker) RetryAfter() time.Duration {
	if b == nil {
		return 0
	}
	s := b.view.Load()
	return (&outage{open: s.state.Open, next: s.next}).retryAfter(b.opts.Now())
}
