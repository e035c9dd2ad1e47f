package ddb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBackoffGrowsToItsBound(t *testing.T) {
	b := Backoff{First: 5 * time.Millisecond, Most: 200 * time.Millisecond}
	for try, bound := range []int{5, 10, 20, 40, 80, 160, 200, 200} {
		most := time.Duration(bound) * time.Millisecond
		longest := time.Duration(0)
		for range 200 {
			w := b.Wait(try)
			assert.Positive(t, w)
			longest = max(longest, w)
		}
		assert.LessOrEqual(t, longest, most)
		assert.Greater(t, longest, most/2, "spread over all of it")
	}
	for _, try := range []int{-1, 40, 63, 64, 1 << 40} {
		assert.Positive(t, b.Wait(try))
		assert.LessOrEqual(t, b.Wait(try), b.Most)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		assert.True(t, Sleep(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start = time.Now()
		assert.False(t, Sleep(ctx, time.Hour))
		assert.False(t, Sleep(ctx, 0))
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// Answers narrow what is known of a clock's offset, for ten minutes: then it is
// learnt anew, because clocks drift.
func TestClockLearnsADriftingOffsetAnew(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for later, offset := range map[time.Duration]time.Duration{
		9 * time.Minute:  5900 * time.Millisecond, // in 5 to 6 s, and in 5.8 to 6.8 s
		11 * time.Minute: 6300 * time.Millisecond, // in 5.8 to 6.8 s
	} {
		local := noon
		c := NewClock(func() time.Time { return local }, true)
		c.Observe(http.Header{"Date": {noon.Add(5 * time.Second).Format(http.TimeFormat)}}, local)
		assert.Equal(t, 5500*time.Millisecond, c.Now().Sub(local))
		local = noon.Add(later + 200*time.Millisecond)
		c.Observe(http.Header{"Date": {noon.Add(later + 6*time.Second).Format(http.TimeFormat)}}, local)
		assert.Equal(t, offset, c.Now().Sub(local), "after %v", later)
	}
}

func TestClockLearnsTheOffsetFromAnswers(t *testing.T) {
	local := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ahead := 90 * time.Second
	dated := func(c *Clock) {
		c.Observe(http.Header{"Date": {local.Add(ahead).Format(http.TimeFormat)}}, local)
	}
	source := func() time.Time { return local }
	c := NewClock(source, true)
	assert.Equal(t, local, c.Now())
	dated(c)
	assert.InDelta(t, ahead.Seconds(), c.Now().Sub(local).Seconds(), 1)
	assert.Equal(t, local, c.Source())
	assert.Equal(t, c.Now().UnixMilli(), c.NowMS())
	c.Observe(http.Header{"Date": {"yesterday"}}, local)
	assert.InDelta(t, ahead.Seconds(), c.Now().Sub(local).Seconds(), 1, "an answer without a date changes nothing")

	ahead = time.Second / 2
	dated(c)
	assert.Equal(t, local, c.Now(), "the clock stepped back to within a second")

	ahead = time.Hour
	off := NewClock(source, false)
	dated(off)
	assert.Equal(t, local, off.Now())
}

// serial is a key of one number.
type serial int

func (k serial) Attributes() Item {
	return Item{"n": &types.AttributeValueMemberN{Value: fmt.Sprint(int(k))}}
}

func serialOf(item Item) (k serial) {
	_, _ = fmt.Sscan(item["n"].(*types.AttributeValueMemberN).Value, &k)
	return k
}

// partial is a table of the even keys that answers so many parts of a batch only.
type partial struct {
	t       *testing.T
	most    int
	err     error
	sizes   []int // of the requests
	deleted []serial
}

func (p *partial) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	asked := in.RequestItems["table"]
	p.sizes = append(p.sizes, len(asked.Keys))
	assert.True(p.t, aws.ToBool(asked.ConsistentRead))
	n := min(p.most, len(asked.Keys))
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]Item{}}
	for _, key := range asked.Keys[:n] {
		if serialOf(key)%2 == 0 {
			out.Responses["table"] = append(out.Responses["table"], key)
		}
	}
	if n < len(asked.Keys) {
		out.UnprocessedKeys = map[string]types.KeysAndAttributes{"table": {Keys: asked.Keys[n:]}}
	}
	return out, p.err
}

func (p *partial) BatchWriteItem(_ context.Context, in *dynamodb.BatchWriteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	asked := in.RequestItems["table"]
	p.sizes = append(p.sizes, len(asked))
	n := min(p.most, len(asked))
	out := &dynamodb.BatchWriteItemOutput{}
	for _, request := range asked[:n] {
		p.deleted = append(p.deleted, serialOf(request.DeleteRequest.Key))
	}
	if n < len(asked) {
		out.UnprocessedItems = map[string][]types.WriteRequest{"table": asked[n:]}
	}
	return out, p.err
}

var batches = Batches[serial]{Table: "table", Backoff: Backoff{First: time.Millisecond, Most: time.Second}, KeyOf: serialOf}

// upTo are the keys 0 to n-1, the first of them twice.
func upTo(n serial) (keys []serial) {
	for k := range n {
		keys = append(keys, k)
	}
	return slices.Insert(keys, 1, 0)
}

func TestBatchGet(t *testing.T) {
	for name, test := range map[string]struct {
		most  int
		sizes []int
		fails string
	}{
		"in two requests":   {most: 100, sizes: []int{100, 50}},
		"what is left out":  {most: 40, sizes: []int{100, 60, 20, 50, 10}},
		"too little to end": {most: 10, sizes: []int{100, 90, 80, 70, 60, 50, 40, 30}, fails: "20 of 100 keys still unprocessed after 8 tries"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &partial{t: t, most: test.most}
				found, err := batches.Get(t.Context(), client, upTo(150))
				assert.Equal(t, test.sizes, client.sizes)
				if test.fails != "" {
					require.ErrorIs(t, err, ErrUnprocessed)
					assert.ErrorContains(t, err, test.fails)
					assert.Nil(t, found, "a part is not taken for all")
					return
				}
				require.NoError(t, err)
				assert.Len(t, found, 75, "an absent item has no entry")
				assert.Equal(t, serial(148).Attributes(), found[148])
			})
		})
	}
}

func TestBatchDelete(t *testing.T) {
	for name, test := range map[string]struct {
		most  int
		sizes []int
		fails string
	}{
		"in two requests":   {most: 25, sizes: []int{25, 5}},
		"what is left out":  {most: 15, sizes: []int{25, 10, 5}},
		"too little to end": {most: 1, sizes: []int{25, 24, 23, 22, 21, 20, 19, 18}, fails: "17 of 25 writes still unprocessed after 8 tries"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &partial{t: t, most: test.most}
				err := batches.Delete(t.Context(), client, upTo(30))
				assert.Equal(t, test.sizes, client.sizes)
				if test.fails != "" {
					require.ErrorIs(t, err, ErrUnprocessed)
					assert.ErrorContains(t, err, test.fails)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, slices.Compact(upTo(30)), client.deleted)
			})
		})
	}
}

func TestBatchEndsWithItsContextAndItsClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := batches.Get(ctx, &partial{t: t, most: 1}, upTo(9))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, ErrUnprocessed)
	require.ErrorIs(t, batches.Delete(ctx, &partial{t: t, most: 1}, upTo(9)), context.Canceled)

	broken := errors.New("broken")
	_, err = batches.Get(t.Context(), &partial{t: t, err: broken}, upTo(9))
	assert.Equal(t, broken, err)
	assert.Equal(t, broken, batches.Delete(t.Context(), &partial{t: t, err: broken}, upTo(9)))
}
