package lane

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Ahead prefetches tokens of a bucket and serves calls from its stock. It is nil in a lane whose
// limiter does not prefetch. The lane's mutex guards it; it knows only those parts of its lane that are
// fields here.
type Ahead struct {
	stock stock
	// among are all Aheads of the process.
	among *aheads
	// mu is the lane's mutex. known is the lane's sight of the bucket, line its waiters, and contact
	// whether it answers.
	mu      *sync.Mutex
	known   *sight
	line    *Line
	contact *Contact
	// submit queues an op; mu is held. served receives the served amounts; it may be nil.
	submit func(*Op)
	served func(context.Context, Served)
	// asked has room for the amounts of a call; mu guards it.
	asked []plan.Signed
}

// Served is an amount served to a call from prefetched tokens.
type Served struct {
	// Amounts are the requested amounts. Incarnation is the bucket from which they were debited, and
	// Sent the time of the debit, by the lane's clock.
	Amounts     []plan.Signed
	Incarnation []byte
	Sent        int64
	// Back means that the amounts were put back, because another bucket denied the call.
	Back bool
}

// aheads are a process's Aheads with tokens. now is a clock in ms that never goes back, nowMS the time by which buckets
// refill. doubt counts amounts in doubt.
type aheads struct {
	now, nowMS func() int64
	doubt      func([]plan.Signed)
	// closed means that nothing is prefetched any more. mu is held while it is set.
	closed  atomic.Bool
	mu      sync.Mutex
	holding map[*Ahead]struct{}
}

// registerAhead registers an Ahead that holds tokens, so that close lets them lapse. It returns false, and does
// not register it, once the limiter is closed.
func (s *aheads) registerAhead(a *Ahead) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return false
	}
	if s.holding == nil {
		s.holding = map[*Ahead]struct{}{}
	}
	s.holding[a] = struct{}{}
	return true
}

// unregisterAhead unregisters an Ahead that holds no tokens any more; without effect if it is not registered.
func (s *aheads) unregisterAhead(a *Ahead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holding, a)
}

// close ends all prefetching, because the limiter closes: registerAhead returns false from then on. It lets all
// prefetched tokens of the process lapse.
func (s *aheads) close() {
	s.mu.Lock()
	s.closed.Store(true)
	var all []*Ahead
	for a := range s.holding {
		all = append(all, a)
	}
	s.mu.Unlock()
	for _, a := range all {
		a.lapseAll()
	}
}

// Serve takes amounts from the stock, all or nothing, reports them to a.served, and queues a prefetch if little
// is left. It returns the last image, and for PutBack the time of the debit in ms since Registry.Began. ok is
// false if the stock lacks an amount, while others wait in line, and for limits given by the call.
func (a *Ahead) Serve(ctx context.Context, asked []plan.Signed, cfg *plan.Config) (r Result, sent int64, ok bool) {
	if cfg.Override || a.line.Waited() {
		return r, 0, false
	}
	at := Instant{a.among.nowMS(), a.among.now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if sent, ok = a.serve(ctx, asked, cfg, at); !ok {
		return r, 0, false
	}
	return Result{Image: a.known.image, Now: at.MS, Config: cfg}, sent, true
}

// Instant is one reading of the clocks. MS is in Unix ms, for the refill of buckets. Elapsed is in ms
// since Registry.Began, for the age of prefetched tokens.
type Instant struct{ MS, Elapsed int64 }

// ServeNeeds serves needs above 0, which no level above counts, from the stock, all or nothing, and returns the
// last image of the bucket. It reports them to a.served, and queues a prefetch if little is left. ok is false
// if the stock lacks an amount, if nothing is needed, and while others wait in line.
func (a *Ahead) ServeNeeds(ctx context.Context, needs *plan.Needs, cfg *plan.Config, at Instant) (shown *schema.Image, ok bool) {
	if a.line.Waited() {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = a.asked[:0]
	for i := range cfg.Limits {
		if needs[i] > 0 {
			a.asked = append(a.asked, plan.Signed{Name: cfg.Limits[i].Name, Amount: needs[i]})
		}
	}
	if len(a.asked) == 0 {
		return nil, false
	}
	_, ok = a.serve(ctx, a.asked, cfg, at)
	return a.known.image, ok
}

// serve takes amounts from the stock, all or nothing, and reports them to a.served. Tokens of another
// configuration lapse, and a prefetch is queued if little is left. sent is the time of the debit, in ms since
// Registry.Began; mu must be held.
func (a *Ahead) serve(ctx context.Context, asked []plan.Signed, cfg *plan.Config, at Instant) (sent int64, ok bool) {
	sent, ok, low := a.stock.serve(asked, cfg, a.known, at.Elapsed)
	if ok {
		a.reportServed(ctx, asked, a.stock.debited.IncarnationID(), sent, false)
	}
	if low {
		a.queueOp(a.fetchOp(cfg))
	}
	a.startLapseTimer()
	return sent, ok
}

// PutBack returns served amounts to the stock, because another level denied the call, and reports that to
// a.served. The tokens keep their age; they lapse if the stock has another configuration, and are lost with
// their bucket.
func (a *Ahead) PutBack(ctx context.Context, asked []plan.Signed, r plan.Reading, sent int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stock.putBack(asked, r, sent, a.among.now())
	a.reportServed(ctx, asked, r.Image.IncarnationID(), sent, true)
	a.startLapseTimer()
}

// reportServed calls a.served, unless that is nil, with served amounts, the incarnation of their bucket, and
// the time of their debit in ms since Registry.Began. back means that they were put back. mu must be held.
func (a *Ahead) reportServed(ctx context.Context, asked []plan.Signed, of []byte, sent int64, back bool) {
	if a.served != nil { // else it makes no garbage
		a.served(ctx, Served{Amounts: slices.Clone(asked), Incarnation: of, Sent: sent, Back: back})
	}
}

// queueOp queues an op of the stock in the lane, unless it is nil. mu must be held.
func (a *Ahead) queueOp(o *Op) {
	if o != nil {
		a.submit(o)
	}
}

// fetchOp returns a new take that prefetches tokens, and marks the stock as fetching. It returns nil if no
// prefetch is due, while callers wait in line, while the bucket is silent, and after the limiter is closed. mu
// must be held.
func (a *Ahead) fetchOp(cfg *plan.Config) *Op {
	if a.line.Waited() || a.contact.silent() || a.among.closed.Load() {
		return nil
	}
	return a.bindOutcome(a.stock.fetchOp(cfg, a.known, a.among.nowMS(), a.among.now()))
}

// lapsedOp removes the lapsed tokens from the stock and returns the adjust that takes them off the bucket's
// counter. It returns nil if nothing has lapsed, or if the bucket is gone. mu must be held.
func (a *Ahead) lapsedOp() *Op { return a.bindOutcome(a.stock.lapsedOp(a.known)) }

// bindOutcome makes bookOutcome receive the outcome of an op of the stock, and returns the op. o may be nil.
func (a *Ahead) bindOutcome(o *Op) *Op {
	if o != nil {
		o.onOutcome = func(r Result) { a.bookOutcome(o, r) }
	}
	return o
}

// bookOutcome applies the outcome of an op of the stock: prefetched tokens join the stock, and lapsed tokens
// wait again if their write failed. Amounts with an unknown outcome count as in doubt. Otherwise it starts the
// timer that lets tokens lapse.
func (a *Ahead) bookOutcome(o *Op, r Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if doubt := a.stock.bookOutcome(o, r, a.among.closed.Load()); doubt != nil {
		a.among.doubt(doubt)
		return
	}
	a.startLapseTimer()
}

// addToBatch adds to a batch with takes, and returns, an adjust that takes lapsed tokens off the counter, and a
// prefetch if one is due. It marks both as carried, and returns nil for a batch without takes. mu must be held.
func (a *Ahead) addToBatch(b *batch) (added []*Op) {
	if len(b.takes) == 0 {
		return nil
	}
	if o := a.lapsedOp(); o != nil {
		o.state.Store(opCarried)
		b.adjusts, added = append(b.adjusts, o), append(added, o)
	}
	if o := a.fetchOp(b.cfg); o != nil {
		o.state.Store(opCarried)
		b.takes, added = append(slices.Clone(b.takes), o), append(added, o)
	}
	return added
}

// learnLanded updates the stock's estimates of demand and of the process's part of the traffic, from a landed
// write. v is the view from which the write was decided. It does nothing if the answer has no image.
func (a *Ahead) learnLanded(carried []*Op, v plan.View, answer Answer) {
	if !answer.Seen || answer.Image == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stock.learnLanded(carried, v.Image, answer.Image, a.among.now())
}

// startLapseTimer registers the Ahead and starts the timer that lets held tokens lapse, unless it runs or no
// token is held. After the limiter is closed it lets all lapse at once. mu must be held.
func (a *Ahead) startLapseTimer() {
	if a.stock.timer != nil || !a.stock.parcels.HasTokens() {
		return
	}
	if !a.among.registerAhead(a) {
		a.lapseFinally()
		return
	}
	a.stock.timer = time.AfterFunc(a.stock.horizon, a.lapseOld)
}

// lapseOld is the timer's function: it lets old tokens lapse, and starts the timer again, or unregisters the
// Ahead if no token is left. It queues a write that takes lapsed tokens off the counter once they have waited
// for a horizon. After the limiter is closed it does nothing.
func (a *Ahead) lapseOld() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stock.timer == nil {
		return // the limiter was closed meanwhile
	}
	a.stock.timer = nil
	now := a.among.now()
	due, holds := a.stock.expire(now)
	if !holds {
		a.among.unregisterAhead(a)
		return
	}
	if due {
		a.writeLapsed()
	}
	a.stock.timer = time.AfterFunc(a.stock.wait(now), a.lapseOld)
}

// writeLapsed queues a write that takes lapsed tokens off the counter. It does nothing while the bucket or the
// table does not answer. mu must be held.
func (a *Ahead) writeLapsed() {
	if !a.contact.Away() {
		a.queueOp(a.lapsedOp())
	}
}

// lapseAll lets all prefetched tokens of the bucket lapse, and queues the write that takes them off its
// counter. It is called when the limiter is closed.
func (a *Ahead) lapseAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lapseFinally()
}

// lapseFinally stops the timer and lets all tokens lapse, because the limiter is closed. Lapsed tokens for
// which no write could be queued count as in doubt. mu must be held.
func (a *Ahead) lapseFinally() {
	a.stock.stop()
	if a.writeLapsed(); a.stock.parcels.HasLapsed() {
		a.among.doubt(a.stock.parcels.TakeLapsed())
	}
}
