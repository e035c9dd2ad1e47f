package lane

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// bucketKey names a bucket.
type bucketKey struct{ entity, resource string }

// Registry keeps the lanes of the buckets that this process has used lately. An idle
// lane costs no goroutine and may be forgotten; one that is forgotten while busy ends
// its work.
type Registry struct {
	Options
	// IDs makes the ids of this client's writes.
	IDs *IDs
	// life ends with End, when the limiter has been closed: then nothing is probed
	// or kept for later any more.
	life context.Context
	End  context.CancelFunc
	// owed is what buckets are owed, trips how many of them do not answer.
	owed  owed
	trips atomic.Int64
	tally tally
	// paced are the lanes whose partition throttles.
	paced paced

	// foreign says that another implementation was seen to write a bucket.
	foreign atomic.Bool
	// OnSend, if set, hears of every write before it is sent; for tests.
	OnSend func(l *Lane, operation uint64, s plan.Sums)
	// OnServe, if set, hears of what calls are served of what was debited ahead, and
	// put back; for tests. The lane's mutex is held.
	OnServe func(ctx context.Context, l *Lane, s Served)
	// ranks counts the waiters there have been, for their seniority.
	ranks atomic.Uint64

	// began is the origin of the instants that lanes are paced by, and by which what is
	// debited ahead becomes old.
	began time.Time
	// lapsing means that nothing is debited ahead any more; stock are the lanes that
	// hold something.
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
	// Store sends requests; Keys names buckets in it.
	Store Store
	Keys  schema.Keys
	// Size is how many lanes are kept.
	Size int
	// NowMS is the time in Unix ms, corrected towards DynamoDB's; Tick returns a
	// number larger than all before it.
	NowMS func() int64
	Tick  func() int64
	// Patience is how long an op without a deadline of its own is decided anew while
	// its bucket's partition throttles.
	Patience time.Duration
	// Table tells whether the table answers.
	Table Table
	// Horizon is for how long ahead the calls of a resource are debited, nil for
	// none.
	Horizon func(resource string) time.Duration
	// Trace hears of writes, nil for nobody.
	Trace Trace
	// Log is told what an operator should know.
	Log *slog.Logger
}

// New returns a registry without lanes. It does no I/O and starts no goroutine.
func New(o Options) (*Registry, error) {
	byKey, err := cache.NewRecent(o.Size, func(l *Lane) bucketKey { return bucketKey{l.Entity, l.Resource} })
	if err != nil {
		return nil, err
	}
	s := &Registry{Options: o, IDs: newOpIDs(), byKey: byKey, keys: make([]atomic.Pointer[builtKey], min(o.Size, mostKeys)), began: origin()}
	s.life, s.End = context.WithCancel(context.Background())
	s.owed.lanes = s
	return s, nil
}

// Doubt counts amounts of which nobody knows whether they were written.
func (s *Registry) Doubt(amounts []plan.Signed) { s.tally.doubt(amounts) }

// Uncertain are the amounts in doubt, and those owed that will never be charged.
func (s *Registry) Uncertain() (doubted, dropped []plan.Signed) { return s.tally.amounts() }

// Silent is how many buckets do not answer.
func (s *Registry) Silent() int { return int(s.trips.Load()) }

// Backlog is for how many buckets something is owed, and all charges that are.
func (s *Registry) Backlog() (buckets int, amounts []plan.Signed) { return s.owed.total() }

// Flush writes what is owed, if the table answers, until ctx ends.
func (s *Registry) Flush(ctx context.Context) {
	s.mu.Lock()
	s.lapsing.Store(true)
	stock := slices.Collect(maps.Keys(s.stock))
	s.mu.Unlock()
	for _, l := range stock {
		l.lapseAll()
	}
	s.owed.drain(ctx)
}

// stocks notes that a lane holds what was debited ahead; false once the limiter is
// closed.
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

// destocks notes that a lane holds nothing any more.
func (s *Registry) destocks(l *Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stock, l)
}

// isClosing reports whether the limiter has been closed: nothing is kept for
// later any more.
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
		if s.Horizon != nil {
			l.ahead = newAhead(s.Horizon(resource))
		}
	})
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

// Started notes that something runs, for which Drain waits.
func (s *Registry) Started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// Stopped notes that it has ended.
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
