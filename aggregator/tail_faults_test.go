package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
)

// failing answers some operations with an error; every nth request of one, from 1.
func failing(code string, nth int64, operations ...string) ddbmem.FaultFunc {
	var n atomic.Int64
	return func(r *ddbmem.Request) ddbmem.Fault {
		if slices.Contains(operations, r.Operation) && n.Add(1)%nth == 0 {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: code, Message: "by a test"}}
		}
		return ddbmem.Fault{}
	}
}

// TestExpiredIterator: one that waited too long is replaced.
func TestExpiredIterator(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		x := h.tail(aggregator.TailOptions{})
		h.spend(1)
		after(10 * time.Second)
		h.db.SetFaults(failing("ThrottlingException", 1, "UpdateItem"))
		after(time.Hour)
		assert.Equal(t, 1, x.shards(), "the lease is renewed meanwhile")
		h.db.SetFaults(nil)
		h.spend(1)
		after(3 * time.Minute)
		assert.EqualValues(t, 2, h.total())
		assert.Empty(t, x.trimmed)
		assert.Empty(t, x.disordered)
		x.end(t)
	})
}

// TestTrimmedRecords: what was trimmed before it was read is told, and seen as a gap.
func TestTrimmedRecords(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(1)
		x := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(5 * time.Second)
		x.end(t)
		h.spend(1, 1, 1)
		after(time.Second)
		require.NoError(t, h.db.TrimStream("limits", time.Now()))
		h.spend(1)
		y := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(5 * time.Second)
		require.Len(t, y.trimmed, 1)
		assert.NotEmpty(t, y.trimmed[0].After)
		require.Len(t, y.gaps, 1)
		assert.EqualValues(t, 3000, y.gaps[0].Missing)
		y.end(t)
	})
}

// TestCrashBeforeTheCheckpoint: what was processed and not noted is read again, and counts
// once.
func TestCrashBeforeTheCheckpoint(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(keys(4)...)
		h.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			began := strings.Contains(string(r.Body), `{"S":""}`)
			return ddbmem.Fault{Drop: r.Operation == "UpdateItem" && strings.Contains(string(r.Body), "#CHECKPOINT#") && !began}
		})
		x := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(5 * time.Second)
		assert.EqualValues(t, 4, h.total())
		x.kill()
		h.db.SetFaults(nil)
		h.spend(keys(4)...)
		y := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(time.Minute)
		assert.EqualValues(t, 8, h.total())
		assert.Equal(t, 4, y.counted)
		y.end(t)
	})
}

// scripted is a ProcessFunc whose records fail as a test says, and which remembers what it
// was given.
type scripted struct {
	mu sync.Mutex
	// fail is asked with the number of the record among its entity's, and how often it was given.
	fail  func(entity string, record, nth int) (err error, unreadable bool)
	given map[string]int // by EventID
	seen  map[string]int // by entity
	place map[string]int // by EventID
	// taken are the sequence numbers that did not fail, by entity, in the order of when they
	// did not for the last time.
	taken map[string][]string
	most  int // records of one call
}

func (s *scripted) process(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given == nil {
		s.given, s.seen, s.place, s.taken = map[string]int{}, map[string]int{}, map[string]int{}, map[string][]string{}
	}
	s.most = max(s.most, len(records))
	var result aggregator.Result
	for _, r := range records {
		entity := strings.TrimPrefix(text(r.Keys, "PK"), "ENTITY#")
		if !strings.HasPrefix(text(r.Keys, "SK"), "#BUCKET#") {
			result.Ignored++
			continue
		}
		if s.given[r.EventID]++; s.given[r.EventID] == 1 {
			s.seen[entity]++
			s.place[r.EventID] = s.seen[entity]
		}
		if s.fail != nil {
			if err, unreadable := s.fail(entity, s.place[r.EventID], s.given[r.EventID]); err != nil {
				result.Failures = append(result.Failures, aggregator.Failure{Record: r, Err: err, Unreadable: unreadable})
				continue
			}
		}
		result.Counted++
		s.taken[entity] = append(slices.DeleteFunc(s.taken[entity], func(seq string) bool { return seq == r.Sequence }), r.Sequence)
	}
	return result, ctx.Err()
}

// TestPoisonBetweenGoodRecords: a record that can never be processed is tried as often as
// was said, skipped and told; the others count, and so does what comes after a restart.
func TestPoisonBetweenGoodRecords(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(1, 2)
		put(t, h, "key-3", "much")
		h.spend(1, 2)
		x := h.tail(aggregator.TailOptions{Tries: 4, FoldEvery: 10 * time.Second})
		after(30 * time.Second)
		assert.EqualValues(t, 4, h.total())
		require.Len(t, x.skipped, 1)
		assert.Equal(t, 4, x.skipped[0].Tries)
		assert.Equal(t, "ENTITY#key-3", text(x.skipped[0].Record.Keys, "PK"))
		require.ErrorContains(t, x.skipped[0].Err, "rpm")
		x.end(t)
		h.spend(1)
		y := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(30 * time.Second)
		assert.EqualValues(t, 5, h.total())
		assert.Empty(t, y.skipped, "it is behind the checkpoint")
		y.end(t)
	})
}

// TestOrderOfAnItemIsKept: while a record fails, no later one of its item is processed, those
// of others are not given again, and it is given until it lands.
func TestOrderOfAnItemIsKept(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		busy := errors.New("busy")
		s := &scripted{fail: func(entity string, record, nth int) (error, bool) {
			switch {
			case entity == "key-1" && record == 2 && nth < 20:
				return busy, false
			case entity == "key-2":
				return busy, true
			}
			return nil, false
		}}
		h.spend(1, 2, 3, 1, 3, 1)
		x := h.tail(aggregator.TailOptions{FoldEvery: -1}, s.process)
		after(30 * time.Second)
		h.spend(1, 3)
		after(10 * time.Minute)
		x.end(t)
		for entity, n := range map[string]int{"key-1": 4, "key-3": 3} {
			assert.Len(t, s.taken[entity], n, entity)
			assert.True(t, slices.IsSorted(s.taken[entity]), entity)
		}
		assert.Len(t, x.skipped, 1)
		for _, r := range x.retries {
			assert.ErrorIs(t, r.Err, busy)
		}
		once := 0
		for _, n := range s.given {
			if n == 1 {
				once++
			}
		}
		assert.Equal(t, 5, once, "what neither fails nor follows what does is given once")
	})
}

// TestMemoryIsBounded: no more records are gathered than was said, over all shards, and they
// are processed early instead.
func TestMemoryIsBounded(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		require.NoError(t, h.db.SplitStream("limits", 4))
		for range 10 {
			h.spend(keys(20)...)
		}
		s := &scripted{}
		x := h.tail(aggregator.TailOptions{MaxRecords: 30, FoldEvery: 5 * time.Minute}, s.process)
		after(4 * time.Minute)
		assert.LessOrEqual(t, x.gathered, 30)
		assert.LessOrEqual(t, s.most, 30)
		assert.GreaterOrEqual(t, len(s.given), 200-30, "most are processed although five minutes are not over")
		x.end(t)
		assert.Len(t, s.given, 200)
	})
}

// TestStopIsBounded: Run ends within its time also if what was gathered cannot be processed.
func TestStopIsBounded(t *testing.T) {
	for within, drain := range map[time.Duration]time.Duration{10 * time.Second: 0, 2 * time.Second: 2 * time.Second} {
		inHarbor(t, func(t *testing.T, h *harbor) {
			x := h.tail(aggregator.TailOptions{Drain: drain})
			h.spend(1)
			after(10 * time.Second)
			h.db.SetFaults(failing("ThrottlingException", 1, "UpdateItem"))
			stopped := time.Now()
			x.stop()
			require.ErrorContains(t, <-x.done, "read again")
			assert.Equal(t, within, time.Since(stopped).Truncate(time.Second))
			h.db.SetFaults(nil)
			assert.Zero(t, h.total())
			y := h.tail(aggregator.TailOptions{FoldEvery: -1})
			after(5 * time.Second)
			assert.EqualValues(t, 1, h.total(), "the lease was released")
			y.end(t)
		})
	}
}

// TestLostLeaseStopsAtOnce: whoever cannot renew a lease processes nothing more before
// another may take it.
func TestLostLeaseStopsAtOnce(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		var cut atomic.Pointer[time.Time]
		blocked := func(ctx context.Context, _ []aggregator.Record) (aggregator.Result, error) {
			<-ctx.Done()
			now := time.Now()
			cut.Store(&now)
			return aggregator.Result{}, ctx.Err()
		}
		x := h.tail(aggregator.TailOptions{FoldEvery: -1}, blocked)
		h.spend(1)
		after(5 * time.Second)
		x.wire.cut.Store(true)
		at := time.Now()
		y := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(time.Minute)
		require.NotNil(t, cut.Load())
		assert.Less(t, cut.Load().Sub(at), 30*time.Second)
		require.Equal(t, 1, y.shards())
		for _, since := range y.held {
			assert.True(t, cut.Load().Before(since))
		}
		require.NotEmpty(t, x.changes)
		last := x.changes[len(x.changes)-1]
		assert.Equal(t, aggregator.ShardLost, last.State)
		assert.ErrorIs(t, last.Err, fault.ErrLost)
		assert.EqualValues(t, 1, h.total())
		y.end(t)
		x.stop()
		<-x.done
	})
}

// TestIdleTable: while nothing is consumed, nothing is written but the lease, as often in the
// last hour as in the first, whatever was consumed before. Who stands by reads the lease alone.
func TestIdleTable(t *testing.T) {
	t.Parallel()
	inHarbor(t, func(t *testing.T, h *harbor) {
		a, b := h.tail(aggregator.TailOptions{}), h.tail(aggregator.TailOptions{})
		after(time.Minute)
		h.spend(keys(5)...)
		after(5 * time.Minute)
		require.EqualValues(t, 5, h.total())
		calls := a.calls + b.calls
		var mu sync.Mutex
		writes := map[string]int{}
		h.db.OnWrite(func(w ddbmem.Write) {
			mu.Lock()
			defer mu.Unlock()
			item := w.New
			if item == nil {
				item = w.Old
			}
			writes[text(item, "PK")+" "+text(item, "SK")]++
		})
		var reads atomic.Int64
		h.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "GetItem" || r.Operation == "Query" {
				reads.Add(1)
			}
			return ddbmem.Fault{}
		})
		var hours []map[string]int
		for range 3 {
			after(time.Hour)
			mu.Lock()
			hours = append(hours, maps.Clone(writes))
			clear(writes)
			mu.Unlock()
		}
		for _, writes := range hours {
			assert.Len(t, writes, 1, "%v", writes)
			assert.InDelta(t, 360, writes["TAIL#usage #LEASE"], 1, "renewed every 10 s")
		}
		assert.InDelta(t, 3*1800, reads.Load(), 3, "looked at every 2 s")
		assert.True(t, maps.Equal(hours[1], hours[2]), fmt.Sprint(hours))
		assert.Equal(t, calls, a.calls+b.calls, "nothing is processed")
		a.end(t)
		b.end(t)
	})
}
