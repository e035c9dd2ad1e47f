package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// remaining is what a limit of the user's bucket holds.
func (s *process) remaining(limit string) int64 {
	s.t.Helper()
	statuses, err := s.limiter.Check(s.t.Context(), "user-1", model, nil)
	require.NoError(s.t, err)
	for _, st := range statuses.Statuses {
		if st.Limit.Name == limit {
			return st.Remaining
		}
	}
	require.Fail(s.t, "no such limit", limit)
	return 0
}

// reset makes the user's bucket full.
func (s *process) reset(id string, limits ...string) *admin.BucketRefill {
	s.t.Helper()
	done, err := admin.New(s.repo).Buckets.Reset(s.t.Context(), "user-1", model, id, limits...)
	require.NoError(s.t, err)
	return done
}

// topUp adds to the user's bucket.
func (s *process) topUp(id string, amounts dynalimit.Amounts) *admin.BucketRefill {
	s.t.Helper()
	done, err := admin.New(s.repo).Buckets.TopUp(s.t.Context(), "user-1", model, id, amounts)
	require.NoError(s.t, err)
	return done
}

// counters are the counters of the user's bucket.
func (s *process) counters() map[string]int64 {
	s.t.Helper()
	image, err := shared.Of(s.repo).Sets.DecodeBucket(s.item("user-1"), nil, 0)
	require.NoError(s.t, err)
	out := map[string]int64{}
	for i, name := range image.Set.Names {
		out[name] = image.Limits[i].Consumed
	}
	return out
}

// A reset fills the limits that are named, or all, pays every debt, and leaves the
// counters and the refill instant as they are.
func TestResetBucketFillsItsLimits(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 40, "tpm": 10_000})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 5_000}))
		s.clock.advance(3 * time.Second) // 5 requests, 500 tokens
		counted, refilled := s.counters(), s.item("user-1")["rf"]

		done := s.reset("", "tpm")
		assert.Equal(t, dynalimit.Amounts{"tpm": -4_500}, done.Before)
		assert.Equal(t, dynalimit.Amounts{"tpm": 10_000}, done.After)
		assert.NotEmpty(t, done.ID)
		assert.Equal(t, s.clock.now().UTC(), done.At)
		assert.False(t, done.Repeated || done.Missing || done.Estimated)
		assert.EqualValues(t, 10_000, s.remaining("tpm"))
		assert.EqualValues(t, 64, s.remaining("rpm"))

		done = s.reset("")
		assert.Equal(t, dynalimit.Amounts{"rpm": 64, "tpm": 10_000}, done.Before)
		assert.Equal(t, dynalimit.Amounts{"rpm": 100, "tpm": 10_000}, done.After)
		assert.EqualValues(t, 100, s.remaining("rpm"))
		assert.Equal(t, counted, s.counters())
		assert.Equal(t, refilled, s.item("user-1")["rf"])
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100, "tpm": 10_000})
		s.deny("user-1", dynalimit.Amounts{"rpm": 1})
	})
}

// A top-up adds what it says, pays debt first, and fills no limit above its burst.
func TestTopUpBucketAddsTokens(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 90, "tpm": 10_000})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 300}))
		s.clock.advance(1500 * time.Millisecond) // 2.5 requests, 250 tokens
		counted := s.counters()
		done := s.topUp("", dynalimit.Amounts{"rpm": 20, "tpm": 500})
		assert.Equal(t, dynalimit.Amounts{"rpm": 12, "tpm": -50}, done.Before)
		assert.Equal(t, dynalimit.Amounts{"rpm": 32, "tpm": 450}, done.After)
		assert.EqualValues(t, 450, s.remaining("tpm"))
		done = s.topUp("", dynalimit.Amounts{"rpm": 1000})
		assert.Equal(t, dynalimit.Amounts{"rpm": 32}, done.Before)
		assert.Equal(t, dynalimit.Amounts{"rpm": 100}, done.After)
		assert.EqualValues(t, 100, s.remaining("rpm"))
		assert.Equal(t, counted, s.counters())
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100, "tpm": 450})
		s.deny("user-1", dynalimit.Amounts{"rpm": 1})
	})
}

// Additions to a limit that is full are not stored, so that they cannot grow without end.
func TestTopUpsOfAFullBucketStayWithinIt(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", maxTokens)}})
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	for range 40 {
		s.topUp("", dynalimit.Amounts{"rpm": maxTokens})
	}
	assert.EqualValues(t, maxTokens, s.remaining("rpm"))
	s.acquire("user-1", dynalimit.Amounts{"rpm": maxTokens})
	s.deny("user-1", dynalimit.Amounts{"rpm": 1})
}

// A reset fills a quota, and takes nothing of what was granted to its window.
func TestResetTakesNothingOfAGrant(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.DailyQuota("rpd", 100, ""), rpm}})
		s.acquire("user-1", dynalimit.Amounts{"rpd": 30, "rpm": 1})
		assert.EqualValues(t, 100, s.reset("").After["rpd"])
		_, err := admin.New(s.repo).Buckets.GrantWindow(t.Context(), "user-1", model, "", dynalimit.Amounts{"rpd": 50})
		require.NoError(t, err)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, dynalimit.Amounts{"rpd": 150, "rpm": 100}, s.reset("").After)
		s.acquire("user-1", dynalimit.Amounts{"rpd": 150})
		s.deny("user-1", dynalimit.Amounts{"rpd": 1})
	})
}

// A reset fills a quota that was granted more when the reset read it, and that calls took below its
// amount before the reset landed.
func TestResetFillsAGrantThatWasTakenMeanwhile(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.DailyQuota("rpd", 100, ""), rpm}})
	s.acquire("user-1", dynalimit.Amounts{"rpd": 1, "rpm": 1})
	_, err := admin.New(s.repo).Buckets.GrantWindow(t.Context(), "user-1", model, "", dynalimit.Amounts{"rpd": 50})
	require.NoError(t, err)
	var once sync.Once
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" {
			once.Do(func() { s.acquire("user-1", dynalimit.Amounts{"rpd": 120}) })
		}
		return ddbmem.Fault{}
	})
	s.reset("")
	s.db.SetFaults(nil)
	assert.EqualValues(t, 100, s.remaining("rpd"))
}

// A bucket that does not exist is full when it is made: nothing is made, and no event says
// that anything was changed. A repetition later returns that.
func TestRefillsOfAMissingBucketDoNothing(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
		for _, done := range []*admin.BucketRefill{s.reset("a"), s.topUp("b", dynalimit.Amounts{"rpm": 5})} {
			assert.True(t, done.Missing)
			assert.Empty(t, done.After)
		}
		item, err := shared.Of(s.repo).Table.Get(t.Context(), "test", shared.Of(s.repo).Keys.Bucket("user-1", model))
		require.NoError(t, err)
		assert.Nil(t, item)
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		for _, done := range []*admin.BucketRefill{s.reset("a"), s.topUp("b", dynalimit.Amounts{"rpm": 5})} {
			assert.True(t, done.Missing && done.Repeated)
		}
		s.deny("user-1", dynalimit.Amounts{"rpm": 1})
		assert.Empty(t, trail(t, s.repo, audit.Query{Target: "user-1"}))
	})
}

// What cannot be done is refused before anything is written.
func TestRefillsAreChecked(t *testing.T) {
	s := memProcess(t, &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}})
	s.acquire("user-1", dynalimit.Amounts{"rpm": 1})
	ctx, meter := t.Context(), s.db.Meter()
	for part, call := range map[string]func() (*admin.BucketRefill, error){
		"invalid entity":   func() (*admin.BucketRefill, error) { return admin.New(s.repo).Buckets.Reset(ctx, "a#b", model, "") },
		"invalid resource": func() (*admin.BucketRefill, error) { return admin.New(s.repo).Buckets.Reset(ctx, "user-1", "", "") },
		"which the bucket does not": func() (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.Reset(ctx, "user-1", model, "", "rpm", "tpd")
		},
		"invalid limits": func() (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.Reset(ctx, "user-1", model, "", "")
		},
		"invalid id": func() (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.Reset(ctx, "user-1", model, "a#b")
		},
		"invalid amounts[tpd]": func() (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.TopUp(ctx, "user-1", model, "", dynalimit.Amounts{"tpd": 1})
		},
		"invalid amounts[rpm]: is -1": func() (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.TopUp(ctx, "user-1", model, "", dynalimit.Amounts{"rpm": -1})
		},
		"amounts: is empty": func() (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.TopUp(ctx, "user-1", model, "", nil)
		},
		"invalid principal": func() (*admin.BucketRefill, error) {
			return admin.New(s.repo.As("")).Buckets.Reset(ctx, "user-1", model, "")
		},
		"not made by NewReposi": func() (*admin.BucketRefill, error) {
			return admin.New(new(dynalimit.Repository)).Buckets.Reset(ctx, "user-1", model, "")
		},
		"invalid ctx": func() (*admin.BucketRefill, error) { return admin.New(s.repo).Buckets.Reset(nil, "user-1", model, "") }, //nolint:staticcheck // refused
	} {
		done, err := call()
		var wrong *dynalimit.ValidationError
		require.ErrorAs(t, err, &wrong, part)
		require.ErrorContains(t, err, part)
		assert.Nil(t, done)
	}
	assert.Zero(t, s.db.Meter().Sub(meter).WriteUnits())
}

// The event tells what each limit held, to the thousandth of a token.
func TestRefillsAreRecorded(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}})
		lease := s.acquire("user-1", dynalimit.Amounts{"rpm": 100, "tpm": 10_000})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 1}))
		s.clock.advance(time.Millisecond) // 0.001 requests, 0.166 tokens
		s.repo = s.repo.As("ann@example.com")
		s.topUp("ticket-4711", dynalimit.Amounts{"tpm": 7})
		s.reset("ticket-4712")
		events := trail(t, s.repo, audit.Query{Target: "user-1"})
		require.Len(t, events, 2)
		for i, want := range []struct{ action, fields string }{
			{"bucket_topped_up", `{"added":[null,{"tpm":7}],"operation_id":[null,"ticket-4711"],"tokens":[{"tpm":-0.834},{"tpm":6.166}]}`},
			{"bucket_reset", `{"operation_id":[null,"ticket-4712"],"tokens":[{"rpm":0.001,"tpm":6.166},{"rpm":100,"tpm":10000}]}`},
		} {
			got := map[string][2]json.RawMessage{}
			for _, c := range events[i].Changes {
				got[c.Field] = [2]json.RawMessage{c.Before, c.After}
			}
			text, err := json.Marshal(got)
			require.NoError(t, err)
			assert.JSONEq(t, want.fields, string(text))
			assert.Equal(t, want.action, events[i].Action)
			assert.Equal(t, "ann@example.com", events[i].Principal)
			assert.Equal(t, model, events[i].Resource)
		}
	})
}

// An operation is done once: who repeats it gets the first result, and its id is not taken
// for another.
func TestRefillsAreDoneOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 100})
		first := s.topUp("x", dynalimit.Amounts{"rpm": 10})
		s.acquire("user-1", dynalimit.Amounts{"rpm": 10})
		s.clock.advance(time.Second)
		again := s.topUp("x", dynalimit.Amounts{"rpm": 10})
		assert.True(t, again.Repeated)
		again.Repeated = false
		assert.Equal(t, first, again)
		assert.EqualValues(t, 1, s.remaining("rpm"))
		for _, call := range []func() (*admin.BucketRefill, error){
			func() (*admin.BucketRefill, error) {
				return admin.New(s.repo).Buckets.TopUp(t.Context(), "user-1", model, "x", dynalimit.Amounts{"rpm": 11})
			},
			func() (*admin.BucketRefill, error) {
				return admin.New(s.repo).Buckets.TopUp(t.Context(), "user-1", "another", "x", dynalimit.Amounts{"rpm": 10})
			},
			func() (*admin.BucketRefill, error) {
				return admin.New(s.repo).Buckets.Reset(t.Context(), "user-1", model, "x", "rpm")
			},
		} {
			_, err := call()
			require.ErrorContains(t, err, "invalid id")
		}
		assert.Len(t, trail(t, s.repo, audit.Query{Target: "user-1"}), 1)
		record, err := shared.Of(s.repo).Table.Get(t.Context(), "test", shared.Of(s.repo).Keys.Operation("user-1", "x"))
		require.NoError(t, err)
		assert.Equal(t, schema.Number(first.At.Add(30*24*time.Hour).Unix()), record[schema.TTL])
	})
}

// A caller whose operation another has done meanwhile does not do it again, although the
// bucket is as it was when it looked.
func TestARefillDoneMeanwhileIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 100)}})
		s.acquire("user-1", dynalimit.Amounts{"rpd": 100})
		var n atomic.Int32
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "TransactWriteItems" && n.Add(1) == 1 {
				return ddbmem.Fault{Before: 500 * time.Millisecond}
			}
			return ddbmem.Fault{}
		})
		var late *admin.BucketRefill
		var wg sync.WaitGroup
		wg.Go(func() { late = s.topUp("x", dynalimit.Amounts{"rpd": 10}) })
		<-time.After(100 * time.Millisecond)
		assert.False(t, s.topUp("x", dynalimit.Amounts{"rpd": 10}).Repeated)
		s.acquire("user-1", dynalimit.Amounts{"rpd": 10})
		wg.Wait()
		assert.True(t, late.Repeated)
		assert.Zero(t, s.remaining("rpd"))
	})
}

// A limit that holds more than its burst, as after a give-back, does not keep a top-up of
// another from landing beside takers.
func TestTopUpsBesideALimitThatIsFullerThanFull(t *testing.T) {
	s := newScene(t, &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}})
	s.acquire("user-1", dynalimit.Amounts{"tpm": 9000})
	s.change(schema.Item{"b_rpm_tk": schema.Number(200_000)})
	s.db.SetFaults(refusedTransactions(4))
	done := s.topUp("", dynalimit.Amounts{"rpm": 5, "tpm": 500})
	assert.True(t, done.Estimated)
	assert.Equal(t, dynalimit.Amounts{"rpm": 100, "tpm": 1000}, done.Before)
	assert.Equal(t, dynalimit.Amounts{"rpm": 100, "tpm": 1500}, done.After)
}

// A bucket of another namespace stays as it is, and its operations are others.
func TestRefillsStayInTheirNamespace(t *testing.T) {
	e := memEngine(t)
	clock := newHandClock()
	root := newProcess(t, e, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
	open := func(ns string) *process {
		repo := e.open(t, root.repo.Table(), &dynalimit.RepositoryOptions{Namespace: ns, Now: clock.now})
		require.NoError(t, admin.New(root.repo).Namespaces.Register(t.Context(), ns))
		return (&process{engine: e, t: t, clock: clock}).on(repo, &dynalimit.Options{Limits: []dynalimit.Limit{rpm}})
	}
	a, b := open("a"), open("b")
	a.acquire("user-1", dynalimit.Amounts{"rpm": 100})
	b.acquire("user-1", dynalimit.Amounts{"rpm": 100})
	assert.False(t, a.reset("x").Repeated)
	a.acquire("user-1", dynalimit.Amounts{"rpm": 100})
	b.deny("user-1", dynalimit.Amounts{"rpm": 1})
	assert.False(t, b.reset("x").Repeated)
	b.acquire("user-1", dynalimit.Amounts{"rpm": 100})
}

// A reset is a read of the bucket and of the operation, and a transaction of both and the
// event.
func TestRefillCosts(t *testing.T) {
	s := memProcess(t, perMinute())
	s.acquire(uuid, dynalimit.Amounts{"rpm": 100, "tpm": 5000})
	for i, call := range []func(id string) (*admin.BucketRefill, error){
		func(id string) (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.Reset(t.Context(), uuid, model, id)
		},
		func(id string) (*admin.BucketRefill, error) {
			return admin.New(s.repo).Buckets.TopUp(t.Context(), uuid, model, id, dynalimit.Amounts{"rpm": 10})
		},
	} {
		s.clock.advance(time.Minute)
		s.acquire(uuid, dynalimit.Amounts{"rpm": 50})
		for _, want := range []struct {
			requests      int64
			reads, writes float64
		}{{2, 2, 8}, {1, 2, 0}} {
			used := s.used(func() {
				_, err := call(fmt.Sprint("ticket-", i))
				require.NoError(t, err)
			})
			assert.Equal(t, want.requests, used.Requests())
			assert.Equal(t, want.reads, used.ReadUnits())
			assert.Equal(t, want.writes, used.WriteUnits())
		}
	}
}

func ExampleBuckets_Reset() {
	ctx := context.Background()
	db := ddbmem.New()
	defer db.Close()
	repo, _ := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ann@example.com"})
	_ = repo.CreateTable(ctx)
	limiter, _ := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpd", 1000)}})
	defer limiter.Close(ctx)
	_, _ = limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpd": 1000})
	_, err := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpd": 1})
	fmt.Println(err != nil)
	done, _ := admin.New(repo).Buckets.Reset(ctx, "key-1", "gpt-4", "ticket-4711")
	fmt.Println(done.After)
	again, _ := admin.New(repo).Buckets.Reset(ctx, "key-1", "gpt-4", "ticket-4711")
	fmt.Println(again.Repeated)
	// Output:
	// true
	// map[rpd:1000]
	// true
}
