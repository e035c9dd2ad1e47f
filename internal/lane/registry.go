package lane

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Registry keeps the lanes of the buckets that this process has used lately. A lane at rest has no
// goroutine and may be evicted, unless callers wait in its line or its bucket does not answer. A lane
// that is evicted while it works finishes first. A Registry is safe for concurrent use; New makes it.
type Registry struct {
	Options
	// IDs makes the ids of this client's writes.
	IDs *IDs
	// life ends when End is called, after the limiter was closed. From then on nothing
	// is probed, and nothing is kept to be written later.
	life context.Context
	End  context.CancelFunc
	// work counts the work in flight.
	work
	// told holds the pending updates of buckets. trips counts the buckets that do not answer.
	told  told
	trips atomic.Int64
	tally tally
	// paced are the lanes with throttling partitions, and aheads those with prefetched tokens.
	paced  some[*Lane]
	aheads aheads

	// foreign means that another implementation has written a bucket.
	foreign atomic.Bool
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
	// ranks counts the waiters made so far, for their ranks.
	ranks atomic.Uint64

	// Began is the origin of the instants for pacing and for the age of prefetched tokens. It never
	// changes.
	Began time.Time
	byKey *cache.Recent[bucketKey, Lane]
	// numbers counts all lanes so far. keys are the items of the lanes that used theirs last: an item's
	// key is larger than the rest of a lane at rest.
	numbers uint16
	keys    []atomic.Pointer[builtKey]
	// Unsettled sums the estimates that quotas are charged for open calls.
	Unsettled Unsettled
}

// Options configure the lanes of a process. All but Trace and OnDrop are required.
type Options struct {
	// Store sends the requests; Keys names the buckets in the table.
	Store Store
	// Configs reads the configurations of the buckets.
	Configs Configs
	Keys    schema.Keys
	// Size bounds the number of lanes in memory.
	Size int
	// NowMS is the time in Unix ms, corrected towards DynamoDB's clock. Tick returns a
	// number larger than all before it.
	NowMS func() int64
	Tick  func() int64
	// SureMS is the latest time that has surely passed by DynamoDB's clock.
	SureMS func() int64
	// Patience is the time for which an op without a deadline of its own is retried while the bucket's
	// partition throttles.
	Patience time.Duration
	// Table says whether the table answers.
	Table Table
	// Queues admit calls by the process's share while buckets do not answer, and Turns spaces the later
	// writes. The limiters of a repository share both.
	Queues *backlog.Queues
	Turns  *Turns
	// Locate finds the buckets that calls of an entity charge on a resource and its groups,
	// and their configurations. It may read them.
	Locate func(ctx context.Context, entity, resource string, by Given) ([]Located, error)
	// Horizon returns the prefetch time of a resource; nil if the limiter does not prefetch.
	Horizon func(resource string) time.Duration
	// Trace is called for writes; it may be nil.
	Trace Trace
	// OnDrop is called with amounts that will never be written; it may be nil.
	OnDrop func(amounts []plan.Signed)
	// Log receives the messages for operators.
	Log *slog.Logger
}

// Located is a bucket that was found.
type Located struct {
	Lane   *Lane
	Config *plan.Config
}

// newRegistry returns a registry without lanes. by makes the writer of pending updates.
func newRegistry(o Options, by func(*Registry) teller) (*Registry, error) {
	byKey, err := cache.NewRecent(o.Size, func(l *Lane) bucketKey { return bucketKey{l.Entity, l.Resource} })
	if err != nil {
		return nil, err
	}
	// An evicted lane would lose its waiters' places, or write to a bucket that does not answer.
	byKey.Held = func(l *Lane) bool { return l.Line.Waited() || l.Contact.silent() }
	s := &Registry{Options: o, IDs: newOpIDs(), byKey: byKey, keys: make([]atomic.Pointer[builtKey], min(o.Size, mostKeys)), Began: time.Now().Add(-time.Second)}
	s.life, s.End = context.WithCancel(context.Background())
	s.paced.most, s.tally.onDrop = mostPaced, o.OnDrop
	s.aheads.now, s.aheads.nowMS, s.aheads.doubt = s.elapsed, s.NowMS, s.tally.doubt
	s.told.life, s.told.work, s.told.table, s.told.turns, s.told.tally, s.told.log = s.life, &s.work, s.Table, s.Turns, &s.tally, s.Log
	s.told.by = by(s)
	return s, nil
}

// Doubt counts amounts with an unknown outcome.
func (s *Registry) Doubt(amounts []plan.Signed) { s.tally.doubt(amounts) }

// Drop counts amounts that will never be written.
func (s *Registry) Drop(amounts []plan.Signed) { s.tally.drop(amounts) }

// Uncertain returns the amounts in doubt, and the dropped ones.
func (s *Registry) Uncertain() (doubted, dropped []plan.Signed) { return s.tally.amounts() }

// Silent is the number of buckets that do not answer.
func (s *Registry) Silent() int { return int(s.trips.Load()) }

// Waiting returns the number of buckets with pending updates, and the sum of those updates and of the
// amounts in flight.
func (s *Registry) Waiting() (buckets int, amounts []plan.Signed) {
	buckets, amounts = s.told.waiting()
	return buckets, plan.Plus(amounts, s.tally.underWay())
}

// Flush writes the pending updates, until ctx ends, if the table answers or answers one more probe.
func (s *Registry) Flush(ctx context.Context) {
	s.aheads.close()
	s.told.drain(ctx)
}

// Sleep waits for d. It returns false if the limiter is closed first.
func (s *Registry) Sleep(d time.Duration) bool { return ddb.Sleep(s.life, d) }

// isClosing reports whether the limiter was closed, so that nothing is kept for later.
func (s *Registry) isClosing() bool { return s.life.Err() != nil }

// Of returns the lane of a bucket.
func (s *Registry) Of(entity, resource string) *Lane {
	key := bucketKey{entity, resource}
	if l := s.byKey.Get(key); l != nil { // the usual case makes no closure
		return l
	}
	return s.byKey.GetOrAdd(key, func(l *Lane) { // one at a time
		s.numbers++
		l.owner, l.number, l.Entity, l.Resource = s, s.numbers, entity, resource
		l.queue.ops, l.Contact.table = l.queue.room[:0], &s.Table
		if s.Horizon != nil {
			l.Ahead = s.aheadOf(l)
		}
	})
}

// Known returns the lane of a bucket if it is in memory, else nil.
func (s *Registry) Known(entity, resource string) *Lane {
	return s.byKey.Again(bucketKey{entity, resource})
}

// Refilled marks the bucket's image as stale in its lane, if there is one, because this process has
// filled the bucket by hand.
func (s *Registry) Refilled(entity, resource string) {
	if l := s.byKey.Get(bucketKey{entity, resource}); l != nil {
		l.Refilled()
	}
}

// mostKeys bounds the number of cached item keys, 0.6 kB each.
const mostKeys = 4096

// builtKey is the key of a lane's item, in the form that requests need.
type builtKey struct {
	lane *Lane
	item schema.Item
}

// Key returns the key of the bucket's item. Callers must not change it.
func (l *Lane) Key() schema.Item {
	place := &l.owner.keys[int(l.number)%len(l.owner.keys)]
	if k := place.Load(); k != nil && k.lane == l {
		return k.item
	}
	k := &builtKey{lane: l, item: l.owner.Keys.Bucket(l.Entity, l.Resource).Attributes()}
	place.Store(k)
	return k.item
}

// Answers reports whether a bucket answers. It probes one that is only suspected, because perhaps no
// caller asks it.
func (s *Registry) Answers(l *Lane) bool {
	c := &l.Contact
	if !c.Away() && c.Suspected() && answersNow(s.life, s.Store, l.Key()) {
		c.NoteAnswer()
	}
	return !c.Away() && !c.Suspected() // a caller may have asked meanwhile
}

// NewWaiter makes a waiter that ranks behind all waiters made so far.
func (s *Registry) NewWaiter() *Waiter { return NewWaiter(s.ranks.Add(1)) }

// Count queues signed amounts for the counter of a lane's bucket, not for its tokens. They are written
// once it answers. It returns false if the limiter is closed.
func (s *Registry) Count(l *Lane, amounts []plan.Signed, cfg *plan.Config) bool {
	key, now := toldKey{bucketKey: bucketKey{l.Entity, l.Resource}}, s.SureMS()
	return s.told.keep(key, cfg, amounts, func(w *untold) []plan.Signed {
		w.charged = plan.Quotas{Config: cfg, Now: now}.Charged(w.charged, amounts)
		return w.count(amounts)
	})
}

// CountUnlocated counts as Count does for an entity and resource with unknown buckets: the entity's
// own, and those of its parents. Locate finds them later, with the parent and plan that the call gave.
func (s *Registry) CountUnlocated(entity, resource string, by Given, amounts []plan.Signed) bool {
	key := toldKey{bucketKey{entity, resource}, true, by}
	return s.told.keep(key, nil, amounts, func(w *untold) []plan.Signed { return w.count(amounts) })
}

// GiveBackLater queues amounts, above 0, to be given back to one incarnation of a lane's bucket once it
// answers. It returns false if the limiter is closed.
func (s *Registry) GiveBackLater(l *Lane, amounts []plan.Signed, incarnation []byte, cfg *plan.Config) bool {
	key := toldKey{bucketKey: bucketKey{l.Entity, l.Resource}}
	kept := s.told.keep(key, cfg, amounts, func(w *untold) []plan.Signed {
		w.giveBack(back{amounts, incarnation})
		return nil
	})
	if kept && s.OnOwe != nil {
		s.OnOwe(l, amounts)
	}
	return kept
}

// Ask returns the instant and order of a request that is sent now.
func (s *Registry) Ask() Asked { return Asked{At: s.NowMS(), Order: s.Tick()} }

// passed returns the time in µs since the origin, for pacing. It never goes back, and every instant is
// above 0. elapsed is the same in ms.
func (s *Registry) passed() int64 { return time.Since(s.Began).Microseconds() }

func (s *Registry) elapsed() int64 { return s.passed() / 1000 }

// access returns the reader of a lane's bucket and configuration.
func (s *Registry) access(l *Lane) access {
	return access{s.Store, s.Configs, l.Entity, l.Resource, l.Key(), s.IDs.Slot, &l.Contact, s.NowMS, s.SureMS, s.Ask}
}

// aheadOf makes the Ahead of a lane; nil if its resource has no prefetch.
func (s *Registry) aheadOf(l *Lane) *Ahead {
	horizon := s.Horizon(l.Resource)
	if horizon <= 0 {
		return nil
	}
	a := &Ahead{stock: newStock(horizon), among: &s.aheads, mu: &l.mu, known: &l.sight, line: &l.Line, contact: &l.Contact}
	a.submit = func(o *Op) {
		if l.add(o) {
			go driver{lane: l}.run()
		}
	}
	if s.OnServe != nil {
		a.served = func(ctx context.Context, served Served) { s.OnServe(ctx, l, served) }
	}
	return a
}

const (
	// FirstProbe and lastProbe bound the waits between the probes of one bucket.
	FirstProbe = 500 * time.Millisecond
	lastProbe  = 10 * time.Second
)

// probe asks a bucket until it answers: at once, then after waits that double. While the whole table
// does not answer, it waits for the table's own probe. The bucket may still be silent when the table
// answers. It returns false if the limiter is closed first.
func (s *Registry) probe(l *Lane) bool {
	for wait := FirstProbe; s.life.Err() == nil; wait = min(2*wait, lastProbe) {
		if s.Table.Open() {
			select {
			case <-s.Table.Closed():
			case <-s.life.Done():
				return false
			}
			wait = FirstProbe
		}
		if answersNow(s.life, s.Store, l.Key()) {
			return true
		}
		if !ddb.Sleep(s.life, wait/2+rand.N(wait/2)) {
			return false
		}
	}
	return false
}

// answersNow asks a bucket once whether it answers.
func answersNow(ctx context.Context, store Store, key schema.Item) bool {
	return heard(guard.Apart(func() error { return store.Probe(ctx, key) }))
}

// noticeForeign logs, once in this process, that another implementation writes buckets
// that this one writes too. Each of them misses refill that the other has not written
// yet.
func (s *Registry) noticeForeign(l *Lane) {
	if s.foreign.Swap(true) {
		return
	}
	s.Log.WarnContext(context.Background(),
		"another program than dynalimit writes this bucket, and perhaps others; while both write, limits admit too much or too little: "+
			"let zae-limiter read the table, and stop its writers (docs/from-zae-limiter.md)",
		slog.String("entity", l.Entity), slog.String("resource", l.Resource))
}

// mostPaced bounds how many paced lanes a process lists.
const mostPaced = 1000

// isPaced registers a paced lane, and notPaced removes it. The trace gets the start of the pacing, if first
// is true, and its end.
func (s *Registry) isPaced(l *Lane, p *pacer, first bool) {
	if first && s.Trace != nil {
		s.Trace.Paced(s.shown(l, p))
	}
	s.paced.add(l)
}

func (s *Registry) notPaced(l *Lane, p *pacer) {
	s.paced.remove(l)
	if s.Trace != nil {
		s.Trace.Paced(Paced{Entity: l.Entity, Resource: l.Resource, Reads: s.shown(l, p).Reads})
	}
}

// shown returns the pacing of a lane.
func (s *Registry) shown(l *Lane, p *pacer) Paced {
	shown := p.shown(s.Began)
	shown.Entity, shown.Resource = l.Entity, l.Resource
	return shown
}

// Hottest lists paced buckets, longest interval first, at most the given number.
func (s *Registry) Hottest(most int) []Paced {
	var list []Paced
	for _, l := range s.paced.all() {
		if p := l.pacer.Load(); p != nil && !p.over() {
			list = append(list, s.shown(l, p))
		} else {
			s.paced.remove(l) // not used since; it comes back when it is throttled again
		}
	}
	slices.SortFunc(list, func(a, b Paced) int {
		return cmp.Or(cmp.Compare(b.Interval, a.Interval), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Resource, b.Resource))
	})
	return list[:min(most, len(list))]
}
