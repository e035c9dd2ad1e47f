package dynalimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

func TestProbeRequest(t *testing.T) {
	s := newScene(t, nil)
	s.wire.Take()
	require.Equal(t, ddb.Refused, judge(s.repo.probe(t.Context(), s.repo.keys.Bucket("probe-1", "probe").Attributes())))
	assertGolden(t, "probe", s.wire.Take())
}

func TestProbeNeverWrites(t *testing.T) {
	s := memProcess(t, perMinute())
	s.acquire("user-1", Amounts{"rpm": 1})
	stored := s.item("user-1")
	for _, key := range []schema.Item{s.repo.absentKey(), s.repo.keys.Bucket("user-1", model).Attributes()} {
		err := s.repo.probe(t.Context(), key)
		assert.Equal(t, ddb.Refused, judge(err))
		assert.True(t, ddb.Classify(err, t.Context()).Answered, "a proof of life")
	}
	assert.Equal(t, stored, s.item("user-1"))
	assert.NotEqual(t, s.repo.absentKey(), s.repo.absentKey(), "another partition each time")
}

// Reads, writes, batches, transactions and queries: each tells whether the table
// answers.
func TestEveryRequestTellsTheBreaker(t *testing.T) {
	for name, request := range map[string]func(context.Context, *Repository) error{
		"GetItem": func(ctx context.Context, r *Repository) error {
			_, err := r.GetEntity(ctx, "user-1")
			return err
		},
		"BatchGetItem": func(ctx context.Context, r *Repository) error {
			_, err := r.rereadConfig(ctx, "user-1", model)
			return err
		},
		"BatchWriteItem": func(ctx context.Context, r *Repository) error {
			return r.store.BatchDelete(ctx, "delete", []schema.Key{r.keys.Meta("user-1")})
		},
		"Query": func(ctx context.Context, r *Repository) error {
			_, err := r.store.Keys(ctx, table.Query{Hash: schema.PK, Value: r.keys.Entity("user-1"), Prefix: schema.ConfigsOf})
			return err
		},
		"TransactWriteItems": func(ctx context.Context, r *Repository) error {
			writes := []types.TransactWriteItem{r.store.Delete(r.keys.Meta("user-1"), schema.Statement{})}
			_, err := r.store.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
			return err
		},
		"UpdateItem": func(ctx context.Context, r *Repository) error { return r.probe(ctx, r.absentKey()) },
		"PutItem": func(ctx context.Context, r *Repository) error {
			return tableMaker{r.connection}.writeVersion(ctx, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				defer r.listen(&hearer{})()
				e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					if q.Operation == name || q.Operation == "UpdateItem" { // the probes too: an answer of theirs would be proof of life
						return ddbmem.Fault{Before: time.Hour}
					}
					return ddbmem.Fault{}
				})
				opened, answers := r.breaker.Opened(), r.breaker.LastAnswer()
				require.Error(t, request(t.Context(), r))
				assert.Equal(t, answers, r.breaker.LastAnswer())
				select {
				case <-opened:
				default:
					assert.Fail(t, "it did not open")
				}
				e.db.SetFaults(nil)
				<-r.breaker.Closed()
				<-time.After(time.Second)
				_ = request(t.Context(), r)
				assert.Equal(t, time.Now(), r.breaker.LastAnswer())
			})
		})
	}
}

func TestUnavailableErrorSaysWhenTheTableIsAskedAgain(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		s.down(ddbmem.Fault{Before: time.Hour})
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, Amounts{"rpm": 1})
		var unavailable *UnavailableError
		require.ErrorAs(t, err, &unavailable)
		assert.Positive(t, unavailable.RetryAfter)
		wait, ok := RetryAfter(errors.Join(errors.New("other"), err))
		assert.True(t, ok)
		assert.Equal(t, unavailable.RetryAfter, wait)
		assert.LessOrEqual(t, wait, 10*time.Second)
		s.db.SetFaults(nil)
		<-s.repo.breaker.Closed()
		s.acquire("user-1", Amounts{"rpm": 1})
	})
}

// The last limiter over a repository ends the probes: nothing is left running.
func TestRepositoryAloneStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
		_, err := r.GetEntity(t.Context(), "user-1")
		require.ErrorIs(t, err, ErrUnavailable)
		assert.False(t, r.breaker.State().Open, "nobody would close it")
	})
}

func TestLastLimiterEndsTheProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		first, err := New(r, perMinute())
		require.NoError(t, err)
		second, err := New(r, perMinute())
		require.NoError(t, err)
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
		require.Error(t, r.probe(t.Context(), r.absentKey()))
		assert.True(t, r.breaker.State().Open)
		require.NoError(t, first.Close(t.Context()))
		require.NoError(t, first.Close(t.Context()), "again")
		assert.True(t, r.breaker.State().Open, "the other uses it")
		require.NoError(t, second.Close(t.Context()))
		assert.False(t, r.breaker.State().Open)
		before := e.db.Meter().Requests()
		<-time.After(time.Minute)
		assert.Equal(t, before, e.db.Meter().Requests())
	})
}

func TestLimitersHearOfAnOutageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		var heard []bool
		detach := r.listen(&hearer{notify: func(s ddb.State) { heard = append(heard, s.Open) }})
		defer detach()
		gone := r.listen(&hearer{notify: func(ddb.State) { assert.Fail(t, "it has left") }})
		gone()
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
		for range 3 {
			require.Error(t, r.probe(t.Context(), r.absentKey()))
		}
		e.db.SetFaults(nil)
		<-r.breaker.Closed()
		synctest.Wait()
		assert.Equal(t, []bool{true, false}, heard)
	})
}
