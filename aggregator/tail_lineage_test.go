package aggregator_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// gate is a processor that stands still with records in hand while it is shut.
type gate struct {
	p  *aggregator.Processor
	mu sync.Mutex
	// open is closed while nothing stands still.
	open chan struct{}
}

func (h *harbor) gate() *gate {
	h.t.Helper()
	p, err := aggregator.New(h.db.Client(), "limits", &aggregator.Options{Retention: -1})
	require.NoError(h.t, err)
	g := &gate{p: p}
	g.shut()
	close(g.open)
	return g
}

// shut has the next call stand still until what it returns is closed.
func (g *gate) shut() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
	return g.open
}

// process is the ProcessFunc.
func (g *gate) process(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
	return g.p.Process(ctx, records)
}

// only is the one shard that a tail holds.
func (l *log) only(t *testing.T) aggregator.Shard {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(t, l.held, 1)
	for shard := range l.held {
		return shard
	}
	return aggregator.Shard{}
}

// TestStreamThatGoesWhileItIsInHand: what a tail has in hand of a stream that is not there any
// more is counted before the records of the stream that replaced it, whoever reads those.
func TestStreamThatGoesWhileItIsInHand(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		g := h.gate()
		a := h.tail(aggregator.TailOptions{FoldEvery: -1}, g.process)
		h.spend(1)
		after(5 * time.Second)
		require.EqualValues(t, 1, h.total())
		b := h.tail(aggregator.TailOptions{FoldEvery: -1})
		open, label := g.shut(), a.only(t).Stream
		h.spend(1)
		after(5 * time.Second)
		h.stream(false)
		h.stream(true)
		h.spend(1)
		h.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if body := string(r.Body); strings.Contains(body, "/stream/"+label) {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "ResourceNotFoundException", Message: "Requested resource not found"}}
			}
			return ddbmem.Fault{}
		})
		after(2 * time.Minute)
		assert.EqualValues(t, 1, h.total(), "the second is in hand")
		close(open)
		after(2 * time.Minute)
		assert.EqualValues(t, 3, h.total())
		assert.Empty(t, append(a.gaps, b.gaps...))
		assert.Len(t, append(a.trimmed, b.trimmed...), 1, "nobody can know that it was read to its end")
		a.end(t)
		b.end(t)
	})
}

// TestShardThatIsGoneForOneIsNotFinished: one whose shard is gone does not take it for read if
// another has come further, who has records of it in hand.
func TestShardThatIsGoneForOneIsNotFinished(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		slow := h.tail(aggregator.TailOptions{FoldEvery: -1, Hold: time.Hour, Poll: time.Minute})
		h.spend(1)
		after(90 * time.Second)
		require.EqualValues(t, 1, h.total())
		shard := slow.only(t).ID
		slow.wire.gone.Store(&shard)
		g := h.gate()
		fast := h.tail(aggregator.TailOptions{FoldEvery: -1, Now: func() time.Time { return time.Now().Add(2 * time.Hour) }}, g.process)
		h.spend(1)
		after(3 * time.Second)
		require.EqualValues(t, 2, h.total(), "by its clock the lease of the other is over")
		open := g.shut()
		h.spend(1)
		after(2 * time.Second)
		require.NoError(t, h.db.SplitStream("limits", 1))
		h.spend(1)
		after(3 * time.Minute)
		assert.NotEmpty(t, slow.trimmed)
		assert.EqualValues(t, 2, h.total(), "the third is in hand")
		close(open)
		after(3 * time.Minute)
		assert.EqualValues(t, 4, h.total())
		assert.Empty(t, append(slow.gaps, fast.gaps...))
		slow.end(t)
		fast.end(t)
	})
}

// TestParentThatIsNotListed: a shard that somebody began and died over is read before its
// children, also by one that does not see it in the list.
func TestParentThatIsNotListed(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		a := h.tail(aggregator.TailOptions{FoldEvery: -1})
		h.spend(1)
		after(5 * time.Second)
		parent := a.only(t).ID
		a.kill()
		h.spend(1)
		require.NoError(t, h.db.SplitStream("limits", 1))
		h.spend(1)
		b := h.tail(aggregator.TailOptions{FoldEvery: -1})
		b.wire.hidden.Store(&parent)
		after(3 * time.Minute)
		assert.EqualValues(t, 3, h.total())
		assert.Empty(t, b.gaps)
		assert.Empty(t, b.trimmed)
		b.end(t)
	})
}

// TestBusyShardAmongMany: a shard that has more is read in larger pieces than its share.
func TestBusyShardAmongMany(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		require.NoError(t, h.db.SplitStream("limits", 120)) // a list of shards has 100
		for range 400 {
			h.spend(1)
		}
		s := &scripted{}
		x := h.tail(aggregator.TailOptions{FoldEvery: -1, MaxRecords: 400}, s.process)
		after(5 * time.Second)
		assert.Equal(t, 120, x.shards())
		assert.Len(t, s.given, 400)
		assert.LessOrEqual(t, s.most, 200)
		x.end(t)
	})
}

// looks counts the looks at checkpoints, and at leases.
func (h *harbor) looks() (checkpoints, leases func() int) {
	var mu sync.Mutex
	n := map[bool]int{}
	h.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "Query" && strings.Contains(string(r.Body), "TAIL#usage") {
			mu.Lock()
			defer mu.Unlock()
			n[strings.Contains(string(r.Body), "#CHECKPOINT#")]++
		}
		return ddbmem.Fault{}
	})
	count := func(of bool) func() int {
		return func() int {
			mu.Lock()
			defer mu.Unlock()
			return n[of]
		}
	}
	return count(true), count(false)
}

// TestCheckpointsAreReadSeldom: with the list of shards, while leases are looked at every two
// seconds; and at once where another has come to the end of a shard.
func TestCheckpointsAreReadSeldom(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		g := h.gate()
		a := h.tail(aggregator.TailOptions{FoldEvery: -1}, g.process)
		after(5 * time.Second)
		b := h.tail(aggregator.TailOptions{FoldEvery: -1})
		after(5 * time.Minute)
		checkpoints, leases := h.looks()
		after(10 * time.Minute)
		assert.InDelta(t, 2*20, checkpoints(), 4)
		assert.InDelta(t, 2*300, leases(), 10)

		open := g.shut()
		h.spend(1)
		after(5 * time.Second)
		require.NoError(t, h.db.SplitStream("limits", 2))
		after(time.Minute)
		require.Equal(t, []int{1, 0}, []int{a.shards(), b.shards()}, "the children are listed, and wait")
		close(open)
		after(5 * time.Second)
		assert.Equal(t, []int{1, 1}, []int{a.shards(), b.shards()})
		a.end(t)
		b.end(t)
	})
}
