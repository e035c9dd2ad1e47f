package tests

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/inside"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// faultyTransport loses, drops and throttles writes in front of any engine.
type faultyTransport struct {
	next aws.HTTPClient
	mu   sync.Mutex
	r    *rand.Rand
	// over says that nothing goes wrong any more.
	over atomic.Bool
}

func (f *faultyTransport) Do(r *http.Request) (*http.Response, error) {
	operation := operationOf(r)
	f.mu.Lock()
	p := f.r.Float64()
	f.mu.Unlock()
	reset := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	switch {
	case operation != "UpdateItem" || f.over.Load():
	case p < .12:
		response, err := f.next.Do(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
		return nil, errors.Join(reset, response.Body.Close())
	case p < .18:
		return nil, reset
	case p < .23:
		return refusalOf(r, "ProvisionedThroughputExceededException"), nil
	}
	return f.next.Do(r)
}

// endState is what callers know of a bucket, in millitokens.
type endState struct {
	mu sync.Mutex
	// held is what leases hold; unconfirmed what may be in the bucket besides.
	held, unconfirmed, granted int64
}

// TestLawsEndState plays concurrent callers with faults at the transport, on
// every engine and in real time, and compares what the callers know with what
// the bucket holds. The limit hardly refills, so both are exact.
func TestLawsEndState(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for seed := range uint64(8) {
			playEndState(t, e, seed)
		}
	})
}

func playEndState(t *testing.T, e *engine, seed uint64) {
	const limiters, callers, steps, burst = 4, 6, 12, 150
	repo := e.repository(t, nil)
	limit := dynalimit.Limit{Name: "rpm", Capacity: burst, RefillAmount: 1, RefillPeriod: 365 * 24 * time.Hour}
	require.NoError(t, repo.SetLimits(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{limit}))
	var end endState
	var group sync.WaitGroup
	var ends []func()
	for slot := range limiters { // a slot each: every resend recognises itself
		faulty := &faultyTransport{r: rand.New(rand.NewPCG(seed, uint64(slot)))}
		client := e.client(func(o *dynamodb.Options) {
			faulty.next = o.HTTPClient
			o.HTTPClient = faulty
		})
		r, err := openRepository(client, repo.Table(), &dynalimit.RepositoryOptions{Principal: tester})
		require.NoError(t, err)
		l, err := newLimiter(r, nil)
		require.NoError(t, err)
		l.lanes.IDs.Slot = slot
		ends = append(ends, func() {
			faulty.over.Store(true)
			assert.NoError(t, l.Close(t.Context()), "tells the bucket what waits")
		})
		for caller := range callers {
			random := rand.New(rand.NewPCG(seed, uint64(100*slot+caller)))
			group.Go(func() { end.play(t, l, random, steps) })
		}
	}
	group.Wait()
	for _, end := range ends {
		end()
	}
	item, err := repo.store.Get(t.Context(), "test", repo.keys.Bucket("key", "gpt-4"))
	require.NoError(t, err)
	image, err := schema.NewLimitSets().DecodeBucket(item, nil, 0)
	require.NoError(t, err)
	consumed, tokens := image.Limits[0].Consumed, image.Limits[0].Tokens
	assert.GreaterOrEqual(t, tokens, int64(0), "seed %d: admitted more than allowed", seed)
	assert.Equal(t, int64(burst*milli), tokens+consumed, "seed %d: the counter is exact", seed)
	assert.GreaterOrEqual(t, consumed, end.held, "seed %d: callers hold more than was debited", seed)
	assert.LessOrEqual(t, consumed, end.held+end.unconfirmed, "seed %d: debited and held by nobody", seed)
	assert.Positive(t, end.granted)
}

// play takes and gives back.
func (s *endState) play(t *testing.T, l *rateLimiter, r *rand.Rand, steps int) {
	ctx := t.Context()
	var leases []*dynalimit.Lease
	for range steps {
		if len(leases) > 0 && r.Float64() < .4 {
			i := r.IntN(len(leases))
			s.giveBack(ctx, t, leases[i], r)
			continue
		}
		n := 1 + r.Int64N(5)
		lease, err := l.Acquire(ctx, "key", "gpt-4", dynalimit.Amounts{"rpm": n})
		switch {
		case err == nil:
			leases = append(leases, lease)
			s.book(0, n*milli)
		case errors.Is(err, dynalimit.ErrUnavailable):
			s.book(n*milli, 0)
		default:
			assert.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lease := range leases {
		s.held += heldBy(lease)
	}
}

// giveBack returns some or all of a lease.
func (s *endState) giveBack(ctx context.Context, t *testing.T, lease *dynalimit.Lease, r *rand.Rand) {
	n := lease.Consumed()["rpm"]
	if n == 0 {
		return
	}
	err := error(nil)
	if r.Float64() < .5 {
		err = lease.Rollback(ctx)
	} else if err = lease.Adjust(ctx, dynalimit.Amounts{"rpm": -1}); errors.Is(err, dynalimit.ErrLeaseEnded) {
		err = nil
	}
	if err != nil {
		assert.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
		s.book(n*milli, 0) // may not have been written: it stays consumed
	}
}

func (s *endState) book(unconfirmed, granted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unconfirmed += unconfirmed
	s.granted += granted
}

// heldBy is what a lease holds of rpm, in millitokens.
func heldBy(lease *dynalimit.Lease) (sum int64) {
	for _, h := range inside.Levels(lease)[0].Holdings {
		if h.Name == "rpm" {
			sum += h.Held
		}
	}
	return sum
}
