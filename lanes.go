package dynalimit

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/cache"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// laneKey names a bucket.
type laneKey struct{ entity, resource string }

// lanes are the buckets this process has used lately. An idle lane costs no
// goroutine and may be forgotten; one that is forgotten while busy ends its work.
type lanes struct {
	store bucketStore
	keys  schema.Keys
	ids   *opIDs
	nowMS func() int64
	tick  func() int64
	// table says whether the table answers.
	table tableHealth
	// life ends when the limiter has been closed.
	life context.Context
	// owed is what buckets are owed, trips how many of them do not answer.
	owed  owed
	trips atomic.Int64
	tally tally

	// trace hears of writes, nil for nobody.
	trace trace
	log   *slog.Logger
	// foreign says that another implementation was seen to write a bucket.
	foreign atomic.Bool
	// onSend, if set, hears of every write before it is sent; for tests.
	onSend func(l *lane, operation uint64, s plan.Sums)
	// ranks counts the waiters there have been, for their seniority.
	ranks atomic.Uint64

	byKey *cache.Recent[laneKey, *lane]

	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when nothing runs; made by who waits for it
}

func newLanes(store bucketStore, keys schema.Keys, size int, nowMS, tick func() int64) (*lanes, error) {
	byKey, err := cache.NewRecent[laneKey, *lane](size)
	if err != nil {
		return nil, err
	}
	s := &lanes{store: store, keys: keys, ids: newOpIDs(), nowMS: nowMS, tick: tick, byKey: byKey, log: slog.New(slog.DiscardHandler)}
	s.owed.lanes = s
	return s, nil
}

// isClosing reports whether the limiter has been closed: nothing is kept for
// later any more.
func (s *lanes) isClosing() bool { return s.life.Err() != nil }

// of returns the lane of a bucket.
func (s *lanes) of(entity, resource string) *lane {
	key := laneKey{entity, resource}
	if l, ok := s.byKey.Get(key); ok { // the usual case makes no closure
		return l
	}
	return s.byKey.GetOrAdd(key, func() *lane {
		return &lane{owner: s, entity: entity, resource: resource, key: s.keys.Bucket(entity, resource).Attributes()}
	})
}

func (s *lanes) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

func (s *lanes) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// drain waits until nothing is in flight.
func (s *lanes) drain(ctx context.Context) error {
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
