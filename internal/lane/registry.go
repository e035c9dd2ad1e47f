package lane

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Registry keeps the lanes of the buckets that this process has used lately. A lane at rest has no
// goroutine and may be evicted, unless callers wait in its line or its bucket does not answer. A lane
// that is evicted while it works finishes first. A Registry is safe for concurrent use; New makes it.
type Registry struct {
	Options
	sites
	// work counts the work in flight.
	work
	// told holds the pending updates of buckets.
	told told
	tally
	// Riders are the queued give-backs that wait for a write of their bucket.
	Riders riders
	// paced are the lanes with throttling partitions, and aheads those with prefetched tokens.
	paced  some[*pacer]
	aheads aheads
	// InFlight are the slots of open calls.
	InFlight slotsInUse

	// OnSend, if it is set, is called with every write before it is sent. Tests set it.
	OnSend func(l *Lane, operation uint64, s plan.Rows)
	// OnTell, if it is set, is called before each write of pending updates is sent. operation is 0 if
	// the write leaves no id. Tests set it.
	OnTell func(l *Lane, operation uint64, s plan.Rows)
	// OnOwe, if it is set, is called with amounts that from now on wait to be given back. Tests set it.
	OnOwe func(l *Lane, amounts []plan.Signed)
	// OnServe, if it is set, is called with amounts served to calls from prefetched tokens, and with
	// amounts put back. The lane's mutex is held. Tests set it.
	OnServe func(ctx context.Context, l *Lane, s Served)
	// Models says whether the role may write units and counters by model.
	Models models
	// Ranks counts the waiters and places made so far, for their ranks.
	Ranks atomic.Uint64

	// denials marks denials in buckets.
	denials denialMarks

	byKey *cache.Recent[BucketKey, Lane]
	// numbers counts all lanes so far.
	numbers uint16
	// Unsettled sums the estimates that quotas are charged for open calls.
	Unsettled *Unsettled
}

// Options configure the lanes of a process. All but Trace and OnDrop are required.
type Options struct {
	Access
	// Size bounds the number of lanes in memory.
	Size int
	// Patience is the time for which an op without a deadline of its own is retried while the bucket's
	// partition throttles.
	Patience time.Duration
	// Queues admit calls by the process's share while buckets do not answer, and Turns spaces the later
	// writes. The limiters of a repository share both.
	Queues *backlog.Queues
	Turns  *Turns
	// Passes bounds the turns in flight. The limiters of a repository share it.
	Passes *Passes
	// Locate finds the buckets that calls of an entity charge on a resource and its groups,
	// and their configurations. It may read them.
	Locate func(ctx context.Context, entity, resource string, by Given) ([]Located, error)
	// Horizon returns the prefetch time of a resource; nil if the limiter does not prefetch.
	Horizon func(resource string) time.Duration
	// Trace is called for writes; it may be nil.
	Trace Trace
	// OnDrop is called with amounts that will never be written; it may be nil.
	OnDrop func(amounts []plan.Signed)
	// OnLapse is called with slots of calls that kept them for the longest time; it may be nil.
	OnLapse func(l *Lane, lapsed Lapsed)
}

// Located is a bucket that was found.
type Located struct {
	Lane   *Lane
	Config *plan.Config
}

// newRegistry returns a registry without lanes; by makes the writer of its pending updates. It fails for a Size
// below 1.
func newRegistry(o Options, by func(*Registry) teller) (*Registry, error) {
	byKey, err := cache.NewRecent[BucketKey, Lane](o.Size)
	if err != nil {
		return nil, err
	}
	// An evicted lane would lose its waiters' places, or write to a bucket that does not answer.
	byKey.Held = func(l *Lane) bool {
		return l.Waiters(false) != nil || l.Waiters(true) != nil || l.Contact.silent() || l.extra.holdsSlots()
	}
	s := &Registry{Options: o, byKey: byKey, Unsettled: new(Unsettled)}
	s.access, s.IDs, s.Began = &s.Access, newOpIDs(), time.Now().Add(-time.Second)
	s.keys = make([]atomic.Pointer[builtKey], min(o.Size, mostKeys))
	s.life, s.End = context.WithCancel(context.Background())
	s.paced.most, s.InFlight.most, s.tally.onDrop = mostPaced, math.MaxInt, o.OnDrop
	s.aheads.now, s.aheads.nowMS, s.aheads.doubt = s.elapsed, s.NowMS, s.Doubt
	s.told.life, s.told.work, s.told.table, s.told.turns, s.told.tally, s.told.log = s.life, &s.work, s.Table, s.Turns, &s.tally, s.Log
	s.told.by = by(s)
	s.Models.log, s.Models.elapsed = s.Log, s.elapsed
	s.denials.work, s.denials.turns, s.denials.models = &s.work, s.Turns, &s.Models
	return s, nil
}

// CountSilent returns the number of buckets that do not answer.
func (s *Registry) CountSilent() int { return int(s.trips.Load()) }

// SumPendingUpdates returns the number of buckets with pending updates, and the absolute sum of their amounts
// and those of pending ops, in millitokens by limit.
func (s *Registry) SumPendingUpdates() (buckets int, amounts []plan.Signed) {
	buckets, amounts = s.told.sumUpdates()
	return buckets, plan.Plus(amounts, s.sumPending())
}

// Flush ends all prefetching, lets all prefetched tokens lapse, and writes the pending updates until ctx ends.
// It writes nothing if the table answers neither calls nor one more probe.
func (s *Registry) Flush(ctx context.Context) {
	s.aheads.close()
	s.told.drain(ctx)
}

// Of returns the lane of a bucket. If the process has none, it makes it, with a prefetch if the resource has a
// horizon; another lane at rest may be evicted then.
func (s *Registry) Of(entity, resource string) *Lane {
	key := BucketKey{entity, resource}
	if l := s.byKey.Get(key); l != nil { // the usual case makes no closure
		return l
	}
	return s.byKey.GetOrAdd(key, func(own *BucketKey, l *Lane) { // one at a time
		s.numbers++
		l.owner, l.number, l.BucketKey = s, s.numbers, own
		l.queue.ops, l.Contact.table = l.queue.room[:0], &s.Table
		l.Memory = Memory{shared: &l.shared, access: &s.Access}
		if s.Horizon != nil {
			s.startPrefetch(l, s.Horizon(resource))
		}
	})
}

// Memo returns the value that the limiter stored in a bucket's lane; nil without one or without a lane. It
// makes no lane, and does not count as a use of it.
func (s *Registry) Memo(entity, resource string) any {
	if l := s.byKey.GetUncounted(BucketKey{entity, resource}); l != nil {
		if memo := l.Memo.Load(); memo != nil {
			return memo.Of
		}
	}
	return nil
}

// MarkRefilled marks the bucket's image as stale and wakes its waiting heads, because this process has filled
// the bucket by hand. It does nothing if the bucket has no lane.
func (s *Registry) MarkRefilled(entity, resource string) {
	if l := s.byKey.Get(BucketKey{entity, resource}); l != nil {
		l.Memory.MarkRefilled()
	}
}

// Answers reports whether a bucket and its table answer. It probes a bucket that is only suspected, and waits
// for that, because perhaps no caller asks it; an answer ends the suspicion.
func (s *Registry) Answers(l *Lane) bool {
	c := &l.Contact
	if !c.Away() && c.Suspected() && l.site().AnswersNow(s.life) {
		c.NoteAnswer()
	}
	return !c.Away() && !c.Suspected() // a caller may have asked meanwhile
}

// NewWaiter makes a waiter that came at an instant and ranks behind all waiters and places made so far. It
// stands in no line yet; batch means that it is a batch call.
func (s *Registry) NewWaiter(came time.Time, batch bool) *Waiter {
	return NewWaiter(s.Ranks.Add(1), came, batch)
}

// Count queues signed amounts for the counter of a lane's bucket, not for its tokens; they are written once it
// answers. Amounts that find no room are dropped and logged. Slots are counted at once in the process's open
// calls; it returns false if the limiter is closed.
func (s *Registry) Count(l *Lane, amounts []plan.Signed, cfg *plan.Config) bool {
	inFlight, amounts := plan.SplitInFlight(amounts)
	if len(inFlight) > 0 {
		s.SlotsOf(l).countAdmitted(inFlight, cfg)
	}
	key, now := toldKey{BucketKey: *l.BucketKey}, s.SureMS()
	return s.told.addUpdates(key, cfg, amounts, func(w *untold) []plan.Signed {
		w.charged = plan.Quotas{Config: cfg, Now: now}.AddCharges(w.charged, amounts)
		return w.addCounts(amounts)
	})
}

// CountUnlocated queues amounts as Count does, for an entity and resource with unknown buckets, which Locate
// finds later by the call's parent and plan. ended are the amounts of a lease that ends: those of slots come
// back. It returns false if the limiter is closed.
func (s *Registry) CountUnlocated(entity, resource string, by Given, amounts, ended []plan.Signed) bool {
	key := toldKey{BucketKey{entity, resource}, true, by}
	return s.told.addUpdates(key, nil, slices.Concat(amounts, ended), func(w *untold) []plan.Signed {
		w.ended = plan.Plus(w.ended, ended)
		return w.addCounts(amounts)
	})
}

// GiveBackLater queues amounts, above 0, to be given back to one incarnation of a lane's bucket once it
// answers. The lane's next write gives back slots. model is the counter by model that their take moved. It
// reports the amounts to OnOwe, and returns false if the limiter is closed.
func (s *Registry) GiveBackLater(l *Lane, amounts []plan.Signed, incarnation []byte, model plan.Model, cfg *plan.Config) bool {
	inFlight, amounts := plan.SplitInFlight(amounts)
	if len(inFlight) > 0 {
		s.SlotsOf(l).giveBack(inFlight)
	}
	key := toldKey{BucketKey: *l.BucketKey}
	kept := s.told.addUpdates(key, cfg, amounts, func(w *untold) []plan.Signed {
		w.giveBack(back{amounts, incarnation, model})
		return nil
	})
	if kept && s.OnOwe != nil {
		s.OnOwe(l, amounts)
	}
	return kept
}

// startPrefetch makes the Ahead of a lane, unless horizon, the prefetch time of its resource, is 0.
func (s *Registry) startPrefetch(l *Lane, horizon time.Duration) {
	if horizon <= 0 {
		return
	}
	x := l.extra.loadOrMake()
	a := &Ahead{stock: newStock(horizon), among: &s.aheads, mu: &l.mu, known: &l.Memory.sight, line: &x.line, contact: &l.Contact}
	a.submit = func(o *Op) {
		if l.enqueue(o) {
			go l.run(nil)
		}
	}
	if s.OnServe != nil {
		a.served = func(ctx context.Context, served Served) { s.OnServe(ctx, l, served) }
	}
	x.ahead = a
}

// mostPaced bounds how many paced lanes a process lists.
const mostPaced = 1000

// listPaced adds a pacer to the paced lanes. If it is the lane's first throttling, it reports the start of the
// pacing to the trace.
func (s *Registry) listPaced(p *pacer, first bool) {
	if first && s.Trace != nil {
		s.Trace.Paced(p.describe(s.Began))
	}
	s.paced.add(p)
}

// unlistPaced removes a pacer from the paced lanes, and reports the end of the pacing to the trace. It does nothing
// for nil.
func (s *Registry) unlistPaced(p *pacer) {
	if p == nil {
		return
	}
	s.paced.remove(p)
	if s.Trace != nil {
		s.Trace.Paced(Paced{Entity: p.entity, Resource: p.resource, Reads: p.describe(s.Began).Reads})
	}
}

// PacedBuckets returns the pacing of at most the given number of throttled buckets, longest interval first. It
// removes lanes from the list that need no pacing any more.
func (s *Registry) PacedBuckets(most int) []Paced {
	var list []Paced
	for _, p := range s.paced.all() {
		if p.isOver() {
			s.paced.remove(p) // not used since; it comes back when it is throttled again
			continue
		}
		list = append(list, p.describe(s.Began))
	}
	slices.SortFunc(list, func(a, b Paced) int {
		return cmp.Or(cmp.Compare(b.Interval, a.Interval), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
	})
	return list[:min(most, len(list))]
}

// SlotsOf returns the slots of the process's open calls in a lane's bucket. It makes them at the first use.
func (s *Registry) SlotsOf(l *Lane) *Slots {
	place := &l.extra.loadOrMake().slots
	if known := place.Load(); known != nil {
		return known
	}
	made := &Slots{site: l.site(), submit: func(o *Op) { l.Submit(o) }, mu: &l.mu, among: &s.InFlight}
	if report := s.OnLapse; report != nil {
		made.onLapse = func(lapsed Lapsed) { report(l, lapsed) }
	}
	place.CompareAndSwap(nil, made)
	return place.Load()
}
