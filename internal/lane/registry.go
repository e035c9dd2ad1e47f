package lane

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// bucketKey names a bucket.
type bucketKey struct{ entity, resource string }

// Registry keeps the lanes of the buckets that this process has used lately. A lane at
// rest has no goroutine and may be forgotten, unless callers wait in its line or its bucket
// does not answer; a lane that is forgotten while it works finishes first. A Registry is safe for concurrent use; New makes it.
type Registry struct {
	Options
	// IDs makes the ids of this client's writes.
	IDs *IDs
	// life ends when End is called, after the limiter was closed. From then on nothing
	// is probed, and nothing is kept to be written later.
	life context.Context
	End  context.CancelFunc
	// told is what waits to be told to buckets. trips counts the buckets that do not answer.
	told  told
	trips atomic.Int64
	tally tally
	// paced are the lanes whose partition throttles.
	paced paced

	// foreign says that another implementation was seen to write a bucket.
	foreign atomic.Bool
	// OnSend, if it is set, is called with every write before it is sent. Tests set it.
	OnSend func(l *Lane, operation uint64, s plan.Sums)
	// OnTell, if it is set, is called with every write that tells a bucket what was counted
	// without it, before it is sent; operation is 0 if the write leaves no id. Tests set it.
	OnTell func(l *Lane, operation uint64, s plan.Sums)
	// OnServe, if it is set, is called with what calls are served from tokens debited
	// ahead, and with what they put back. The lane's mutex is held. Tests set it.
	OnServe func(ctx context.Context, l *Lane, s Served)
	// ranks counts the waiters made so far, for their ranks.
	ranks atomic.Uint64

	// began is the origin of the instants that lanes are paced by, and by which what is
	// debited ahead becomes old.
	began time.Time
	// lapsing means that nothing is debited ahead any more. stock holds the lanes that
	// have debited ahead.
	lapsing atomic.Bool
	stock   map[*Lane]struct{}

	byKey *cache.Recent[bucketKey, Lane]
	// numbers counts the lanes there have been, and keys are the items of those that
	// used theirs last: an item's key is larger than all else that a lane at rest is.
	numbers uint16
	keys    []atomic.Pointer[builtKey]

	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when nothing runs; made by who waits for it
}

// Options are what lanes are made of. All but Trace are required.
type Options struct {
	// Store sends the requests; Keys names the buckets in the table.
	Store Store
	Keys  schema.Keys
	// Size is how many lanes are kept at most.
	Size int
	// NowMS is the time in Unix ms, corrected towards DynamoDB's clock. Tick returns a
	// number larger than all before it.
	NowMS func() int64
	Tick  func() int64
	// Patience is how long an op without a deadline of its own is tried again while the
	// bucket's partition throttles.
	Patience time.Duration
	// Table says whether the table answers.
	Table Table
	// Queues are those by which the process admits while buckets do not answer, and Turns
	// spaces what it writes afterwards. The limiters of a repository share both.
	Queues *backlog.Queues
	Turns  *Turns
	// Locate finds the buckets that calls of an entity on a resource charge, and under
	// which configurations. It may read them.
	Locate func(ctx context.Context, entity, resource string) ([]Located, error)
	// Horizon is how long ahead the calls of a resource are debited; nil if none are.
	Horizon func(resource string) time.Duration
	// Trace is told of writes; nil if nobody is.
	Trace Trace
	// Log receives what an operator should know.
	Log *slog.Logger
}

// Located is a bucket that was found.
type Located struct {
	Lane   *Lane
	Config *plan.Config
}

// New returns a registry without lanes. It does no I/O and starts no goroutine.
func New(o Options) (*Registry, error) {
	byKey, err := cache.NewRecent(o.Size, func(l *Lane) bucketKey { return bucketKey{l.Entity, l.Resource} })
	if err != nil {
		return nil, err
	}
	// Who waits has a place in its line, and a bucket that does not answer is to be left alone.
	byKey.Held = func(l *Lane) bool { return l.Line.Waited() || l.Contact.silent.Load() }
	s := &Registry{Options: o, IDs: newOpIDs(), byKey: byKey, keys: make([]atomic.Pointer[builtKey], min(o.Size, mostKeys)), began: origin()}
	s.life, s.End = context.WithCancel(context.Background())
	s.told.lanes = s
	return s, nil
}

// Doubt counts amounts for which it is not known whether they were written.
func (s *Registry) Doubt(amounts []plan.Signed) { s.tally.doubt(amounts) }

// Drop counts amounts that no bucket will be told.
func (s *Registry) Drop(amounts []plan.Signed) { s.tally.drop(amounts) }

// Uncertain returns the amounts in doubt, and those that no bucket will be told.
func (s *Registry) Uncertain() (doubted, dropped []plan.Signed) { return s.tally.amounts() }

// Silent is the number of buckets that do not answer.
func (s *Registry) Silent() int { return int(s.trips.Load()) }

// Waiting is the number of buckets that something waits to be told to, and how much that
// is, with what is under way and not known to have landed.
func (s *Registry) Waiting() (buckets int, amounts []plan.Signed) {
	buckets, amounts = s.told.waiting()
	return buckets, plan.Plus(amounts, s.tally.underWay())
}

// Flush writes what waits to be told to buckets, until ctx ends, if the table answers or,
// asked once, answers again.
func (s *Registry) Flush(ctx context.Context) {
	s.mu.Lock()
	s.lapsing.Store(true)
	stock := slices.Collect(maps.Keys(s.stock))
	s.mu.Unlock()
	for _, l := range stock {
		l.lapseAll()
	}
	s.told.drain(ctx)
}

// stocks notes that a lane holds tokens debited ahead. It returns false once the limiter
// is closed.
func (s *Registry) stocks(l *Lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lapsing.Load() {
		return false
	}
	if s.stock == nil {
		s.stock = map[*Lane]struct{}{}
	}
	s.stock[l] = struct{}{}
	return true
}

// destocks notes that a lane holds no tokens debited ahead any more.
func (s *Registry) destocks(l *Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stock, l)
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
		l.owner, l.number, l.Entity, l.Resource, l.queue = s, s.numbers, entity, resource, l.room[:0]
		l.Contact.table = s.Table
		if s.Horizon != nil {
			l.ahead = newAhead(s.Horizon(resource))
		}
	})
}

// Refilled tells the lane of a bucket, if it is remembered, that this process has filled
// the bucket by hand.
func (s *Registry) Refilled(entity, resource string) {
	if l := s.byKey.Get(bucketKey{entity, resource}); l != nil {
		l.Refilled()
	}
}

// mostKeys bounds how many items' keys are kept, 0.6 kB each.
const mostKeys = 4096

// builtKey is the key of a lane's item, as requests have it.
type builtKey struct {
	lane *Lane
	item schema.Item
}

// Key is the key of the bucket's item. It is not to be changed.
func (l *Lane) Key() schema.Item {
	place := &l.owner.keys[int(l.number)%len(l.owner.keys)]
	if k := place.Load(); k != nil && k.lane == l {
		return k.item
	}
	k := &builtKey{lane: l, item: l.owner.Keys.Bucket(l.Entity, l.Resource).Attributes()}
	place.Store(k)
	return k.item
}

// Started notes that some work has begun. Drain waits for it.
func (s *Registry) Started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// Answers reports whether a bucket answers. One that is only suspected is asked, because
// there may be no caller who does.
func (s *Registry) Answers(l *Lane) bool {
	c := &l.Contact
	if !c.Away() && c.Suspected() && heard(s.Store.Probe(s.life, l.Key())) {
		c.Hear()
	}
	return !c.Away() && !c.Suspected() // a caller may have asked meanwhile
}

// NewWaiter makes a waiter that ranks behind all waiters made so far.
func (s *Registry) NewWaiter() *Waiter { return NewWaiter(s.ranks.Add(1)) }

// Stopped notes that work counted by Started has ended.
func (s *Registry) Stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Drain waits until nothing is in flight.
func (s *Registry) Drain(ctx context.Context) error {
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
