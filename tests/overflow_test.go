package tests

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// huge is the largest limit there is.
func huge() *dynalimit.Options {
	return &dynalimit.Options{Limits: []dynalimit.Limit{{Name: "x", Capacity: maxTokens, RefillPeriod: 24 * time.Hour}}}
}

// notWritten asserts that an adjust was refused for the debt it would make.
func notWritten(t *testing.T, err error) {
	t.Helper()
	var unconfirmed *dynalimit.UnconfirmedError
	require.ErrorAs(t, err, &unconfirmed)
	assert.True(t, unconfirmed.NotWritten)
	var refused *dynalimit.ValidationError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "amounts[x]", refused.Field)
	assert.ErrorContains(t, err, "into debt")
}

// The sums of many callers ride in as many writes as they need: what is
// debited is what was not refused, to the token.
func TestSumsOfManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		repo := e.repository(t, &dynalimit.RepositoryOptions{Now: time.Now})
		l, err := newLimiter(repo, huge())
		require.NoError(t, err)
		const callers = 10_000 // 10^19 millitokens together
		leases := make([]*dynalimit.Lease, callers)
		for i := range leases {
			leases[i], err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"x": 0})
			require.NoError(t, err)
		}
		_, err = l.Acquire(t.Context(), "u", model, dynalimit.Amounts{"x": 1})
		require.NoError(t, err)
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 50 * time.Millisecond} })
		var wg sync.WaitGroup
		var charged atomic.Int64
		for _, lease := range leases {
			wg.Go(func() {
				if err := lease.Adjust(t.Context(), dynalimit.Amounts{"x": maxTokens}); err == nil {
					charged.Add(1)
				} else {
					notWritten(t, err)
				}
			})
		}
		wg.Wait()
		e.db.SetFaults(nil)
		assert.Greater(t, charged.Load(), int64(2000))
		report, err := l.Check(t.Context(), "u", model, nil)
		require.NoError(t, err)
		assert.InDelta(t, maxTokens-1-charged.Load()*maxTokens, report.Statuses[0].Remaining, 60*maxTokens/86_400, "but for the refill")
		require.NoError(t, l.Close(t.Context()))
	})
}

// A debt that a bucket cannot store is refused before it is written; the others
// of the batch go on, and the bucket can be read for ever.
func TestDebtThatCannotBeStored(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, huge())
		s.acquire("u", dynalimit.Amounts{"x": 1})
		deep := s.item("u")
		deep["b_x_tk"] = schema.Number(-plan.MaxDebt + 10*milli)
		put(t, s.repo, deep)
		s.limiter.lanes.Of("u", model).Drop()

		require.NoError(t, s.acquire("u", dynalimit.Amounts{"x": 0}).Adjust(t.Context(), dynalimit.Amounts{"x": 4}))
		notWritten(t, s.acquire("u", dynalimit.Amounts{"x": 0}).Adjust(t.Context(), dynalimit.Amounts{"x": maxTokens}))
		assert.Equal(t, int64(-plan.MaxDebt+6*milli), s.stored("u", "x").Tokens)

		l := s.limiter.lanes.Of("u", model)
		cfg := configOf(s.limiter.own)
		ops := make([]*lane.Op, 0, 3)
		for _, tokens := range []int64{3, 5, 2} {
			ops = append(ops, lane.NewAdjust(t.Context(), []plan.Signed{{Name: "x", Amount: tokens * milli}}, nil, cfg))
		}
		l.Submit(ops...)
		for i, refused := range []bool{false, true, false} {
			<-ops[i].Done
			if refused {
				requireRefused(t, ops[i].Result.Err)
			} else {
				require.NoError(t, ops[i].Result.Err)
			}
		}
		assert.Equal(t, int64(-plan.MaxDebt+milli), s.stored("u", "x").Tokens)
		_, err := s.limiter.Acquire(t.Context(), "u", model, dynalimit.Amounts{"x": 1}, dynalimit.WithOnUnavailable(dynalimit.Allow))
		require.ErrorIs(t, err, dynalimit.ErrLimitExceeded)
	})
}

// The counter of a bucket goes beyond 64 bits, exactly, and blocks nobody.
func TestCounterBeyond64Bits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("u", dynalimit.Amounts{"tpm": 1})
		item := s.item("u")
		item["b_tpm_tc"] = &types.AttributeValueMemberN{Value: "9223372036854775807"}
		put(t, s.repo, item)
		p := s.peer(perMinute())
		lease := p.acquire("u", dynalimit.Amounts{"tpm": 9})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -2}))
		assert.Equal(t, &types.AttributeValueMemberN{Value: "9223372036854782807"}, s.item("u")["b_tpm_tc"])
		assert.Equal(t, int64(9992), s.level("u", "tpm"))
	})
}
