package aggregator_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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
// more is counted before the records of the stream that replaced it.
func TestStreamThatGoesWhileItIsInHand(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		g := h.gate()
		x := h.tail(aggregator.TailOptions{FoldEvery: -1}, g.process)
		h.spend(1)
		after(5 * time.Second)
		require.EqualValues(t, 1, h.total())
		open, label := g.shut(), x.only(t).Stream
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
		assert.Empty(t, x.gaps)
		assert.Len(t, x.trimmed, 1, "nobody can know that it was read to its end")
		x.end(t)
	})
}

// TestShardThatIsGoneForOneIsNotFinished: one that stood still, who does not know that it lost
// the lease and whose shard is gone, does not take it for read: another has come further, and
// has records of it in hand.
func TestShardThatIsGoneForOneIsNotFinished(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		slow := h.tail(aggregator.TailOptions{FoldEvery: -1, Hold: time.Hour, Poll: time.Minute})
		h.spend(1)
		after(90 * time.Second)
		require.EqualValues(t, 1, h.total())
		shard := slow.only(t).ID
		slow.wire.gone.Store(&shard)
		h.loseLease()
		g := h.gate()
		fast := h.tail(aggregator.TailOptions{FoldEvery: -1}, g.process)
		h.spend(1)
		after(3 * time.Second)
		require.EqualValues(t, 2, h.total())
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

// loseLease has somebody else find the lease free, before its holder knows.
func (h *harbor) loseLease() {
	h.t.Helper()
	_, err := h.db.Client().DeleteItem(h.t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("limits"), Key: map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: "TAIL#usage"}, "SK": &types.AttributeValueMemberS{Value: "#LEASE"},
	}})
	require.NoError(h.t, err)
}

// TestParentThatIsNotListed: a shard that somebody began and died over, before any of it was
// counted, is read before its children, also by one that does not see it in the list.
func TestParentThatIsNotListed(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		a := h.tail(aggregator.TailOptions{})
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
