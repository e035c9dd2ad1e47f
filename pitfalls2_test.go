package dynalimit

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Clients with images of a full bucket share its tokens: the store decides.
func TestStaleImagesDoNotOverAdmit(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("user-1", Amounts{"tpm": 1})
		var processes []*process
		for range 6 {
			p := s.peer(perMinute())
			p.acquire("user-1", Amounts{"rpm": 1})
			processes = append(processes, p)
		}
		s.clock.advance(time.Minute)
		admitted := 0
		for _, p := range processes { // each has last seen it nearly full
			if _, err := p.limiter.Acquire(t.Context(), "user-1", model, Amounts{"tpm": 4000}); err == nil {
				admitted++
			} else {
				exceeded := p.denied(err)
				assert.Equal(t, int64(2000), exceeded.Primary().Remaining, "rejected on the state it saw")
				assert.Equal(t, 12*time.Second, exceeded.RetryAfter)
			}
		}
		assert.Equal(t, 2, admitted)
	})
}

// A client that stalled decides by what has accrued since, not by old numbers.
func TestStalledClientSeesWhatAccrued(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		s.acquire("user-1", Amounts{"rpm": 5, "tpm": 1})
		p.acquire("user-1", Amounts{"rpm": 95})
		s.clock.advance(12 * time.Second)
		s.acquire("user-1", Amounts{"rpm": 20})
		p.deny("user-1", Amounts{"rpm": 1})
		s.clock.advance(3 * time.Second)
		exceeded := p.deny("user-1", Amounts{"rpm": 10, "tpm": 10})
		assert.Equal(t, 3*time.Second, exceeded.RetryAfter)
		assert.Equal(t, []bool{true, false}, []bool{exceeded.Statuses[0].Exceeded, exceeded.Statuses[1].Exceeded}, "only what does not fit")
	})
}

// Exhaust, wait, acquire: on the path of every write.
func TestExhaustWaitAcquire(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		for _, pause := range []time.Duration{0, 30 * time.Second, 2 * time.Hour} { // creates, spends, claims
			s.clock.advance(pause)
			report, err := s.limiter.Check(t.Context(), "key", model, nil)
			require.NoError(t, err)
			s.acquire("key", Amounts{"tpm": report.Statuses[1].Remaining})
			for range 3 {
				exceeded := s.deny("key", Amounts{"tpm": 1000})
				assert.Equal(t, 6*time.Second, exceeded.RetryAfter)
				s.clock.advance(exceeded.RetryAfter)
				s.acquire("key", Amounts{"tpm": 1000})
			}
		}
	})
}

// What an open lease holds is gone for everybody else at once.
func TestConsumptionIsVisibleWhileTheLeaseIsOpen(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		lease := s.acquire("user-1", Amounts{"tpm": 6000})
		p.deny("user-1", Amounts{"tpm": 6000})
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": -3000}))
		s.clock.advance(2 * time.Second)
		p.acquire("user-1", Amounts{"tpm": 6000})
	})
}

// However long a bucket is idle, no more than the burst is stored by a claim.
func TestClaimStoresNoMoreThanTheBurst(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, &Options{Limits: []Limit{PerMinute("rpm", 100), PerSecond("fast", maxTokens)}})
		s.acquire("user-1", Amounts{"rpm": 50, "fast": maxTokens})
		for _, idle := range []time.Duration{2 * time.Hour, 400 * 24 * time.Hour} {
			s.clock.advance(idle)
			s.acquire("user-1", Amounts{"rpm": 1, "fast": 1})
			assert.Equal(t, s.clock.now().UnixMilli(), s.image("user-1").Refilled)
			assert.Equal(t, int64(99_000), s.stored("user-1", "rpm").Tokens)
			assert.Equal(t, int64(maxTokens-1)*milli, s.stored("user-1", "fast").Tokens)
		}
	})
}

// The counter is the exact sum of what was debited and given back, also when
// more was refilled than used.
func TestCounterIsExact(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		p := s.peer(perMinute())
		sum := int64(0)
		for i := range int64(30) {
			s.clock.advance(time.Duration(i*i) * 7 * time.Second)
			lease := s.acquire("user-1", Amounts{"tpm": 10 + i})
			p.acquire("user-1", Amounts{"tpm": 1})
			sum += 11 + i
			switch i % 3 {
			case 0:
				require.NoError(t, lease.Rollback(t.Context()))
				sum -= 10 + i
			case 1:
				require.NoError(t, lease.Adjust(t.Context(), Amounts{"tpm": 100 - i}))
				sum += 100 - i
			}
		}
		assert.Equal(t, sum*milli, s.stored("user-1", "tpm").Consumed)
	})
}

// The expiry covers at least an hour, the refill of the slowest limit, and the
// deepest debt.
func TestExpiryCoversRefillAndDebt(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		for _, test := range []struct {
			name  string
			limit Limit
			debt  int64
			least time.Duration
		}{
			{"fast", PerSecond("x", 10), 0, time.Hour},
			{"slow", PerDay("x", 10), 0, 7 * 24 * time.Hour},
			{"small refill", Limit{Name: "x", Capacity: 1000, RefillAmount: 1, RefillPeriod: time.Minute}, 0, 7 * 1000 * time.Minute},
			{"debt", PerMinute("x", 10), 1_000_000, 100_000 * time.Minute},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := newProcess(t, e, nil)
				require.NoError(t, s.repo.SetResourceLimits(t.Context(), model, []Limit{test.limit}))
				lease := s.acquire("user-1", Amounts{"x": 1})
				if test.debt > 0 {
					require.NoError(t, lease.Adjust(t.Context(), Amounts{"x": test.debt}))
				}
				ahead := time.Duration(s.image("user-1").TTL-s.clock.now().Unix()) * time.Second
				assert.GreaterOrEqual(t, ahead, test.least)
			})
		}
	})
}

// A bucket whose limits are the entity's own is never deleted.
func TestOwnLimitsHaveNoExpiry(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.acquire("user-1", Amounts{"rpm": 1})
		assert.NotZero(t, s.image("user-1").TTL)
		require.NoError(t, s.repo.SetEntityLimits(t.Context(), "user-1", "", []Limit{PerMinute("rpm", 100)}))
		s.clock.advance(2 * time.Second)
		s.acquire("user-1", Amounts{"rpm": 1})
		assert.Zero(t, s.image("user-1").TTL)
		require.NoError(t, s.repo.DeleteEntityLimits(t.Context(), "user-1", ""))
		s.clock.advance(2 * time.Second)
		s.acquire("user-1", Amounts{"rpm": 1})
		assert.NotZero(t, s.image("user-1").TTL)
	})
}

// With expired items deleted at once, a busy or indebted bucket is never
// forgiven: its expiry moves before it comes.
func TestExpiryNeverForgives(t *testing.T) {
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now), ddbmem.WithExpiry())
	repo := e.repository(t, &RepositoryOptions{Now: clock.now})
	s := (&process{engine: e, t: t, clock: clock}).on(repo, &Options{Limits: []Limit{PerHour("x", 60)}})
	lease := s.acquire("user-1", Amounts{"x": 60})
	require.NoError(t, lease.Adjust(t.Context(), Amounts{"x": 60 * 24 * 2})) // two days' worth
	admitted := 0
	for range 24 * 4 { // four days, an attempt every hour
		s.clock.advance(time.Hour)
		admitted += s.allowed(60, "user-1", "x")
	}
	assert.Equal(t, 60*24*2, admitted, "nothing for two days, then what is refilled")
}

// An item past its expiry that DynamoDB has not deleted yet is not spent as it
// is: the take moves the expiry, or the debt would vanish with the deletion.
func TestExpiredItemThatIsStillThere(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		lease := s.acquire("user-1", Amounts{"rpm": 100})
		item := s.item("user-1")
		item[schema.TTL] = schema.Number(s.clock.now().Unix() - 10)
		put(t, s.repo, item)
		s.clock.advance(600 * time.Millisecond)
		s.acquire("user-1", Amounts{"rpm": 1})
		assert.Greater(t, s.image("user-1").TTL, s.clock.now().Unix()+3000)
		item = s.item("user-1")
		item[schema.TTL] = schema.Number(s.clock.now().Unix() - 10)
		put(t, s.repo, item)
		require.NoError(t, lease.Adjust(t.Context(), Amounts{"rpm": 500}))
		image := s.image("user-1")
		assert.GreaterOrEqual(t, image.TTL, s.clock.now().Unix()+6*60, "an adjust, too")
		assert.Equal(t, int64(-500_000), s.level("user-1", "rpm")*milli, "no more, no less")
	})
}

// New and NewRepository ask for nothing, create nothing and start nothing.
func TestConstructorsTouchNothing(t *testing.T) {
	e := memEngine(t)
	repo, err := NewRepository(e.client(), "limits", &RepositoryOptions{Namespace: "typo"})
	require.NoError(t, err)
	limiter, err := New(repo, perMinute())
	require.NoError(t, err)
	require.NoError(t, limiter.Close(t.Context()))
	assert.Zero(t, e.db.Meter().Requests())
}

// Buckets of one entity lie under as many sort keys as resources, and an
// entity's other resources are not touched.
func TestResourcesAreSeparate(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		for i := range 5 {
			_, err := s.limiter.Acquire(t.Context(), "user-1", "m"+strconv.Itoa(i), Amounts{"rpm": 100})
			require.NoError(t, err)
		}
		s.acquire("user-1", Amounts{"rpm": 100})
		s.acquire("user-2", Amounts{"rpm": 100})
	})
}

// A write whose first try lands after the resend counts at most twice, and
// never gives anything back twice.
func TestLateAnswers(t *testing.T) {
	virtual(t, perMinute(), func(t *testing.T, s *process) {
		lease := s.acquire("user-1", Amounts{"tpm": 1000})
		for _, do := range []struct {
			name        string
			least, most int64
			call        func(ctx context.Context) error
		}{
			{"a take", -1000, -500, func(ctx context.Context) error {
				_, err := s.limiter.Acquire(ctx, "user-1", model, Amounts{"tpm": 500})
				return err
			}},
			{"a give-back", 0, 100, func(ctx context.Context) error { return lease.Adjust(ctx, Amounts{"tpm": -100}) }},
			{"a charge", -200, -100, func(ctx context.Context) error { return lease.Adjust(ctx, Amounts{"tpm": 100}) }},
		} {
			s.acquire("user-1", Amounts{"rpm": 1}) // this client wrote last
			before := s.level("user-1", "tpm")
			late := make(chan struct{})
			s.db.SetFaults(firstOf("UpdateItem", 1, ddbmem.Fault{Late: late}))
			require.NoError(t, do.call(t.Context()), do.name)
			s.db.SetFaults(nil)
			close(late)
			s.db.Wait()
			change := s.level("user-1", "tpm") - before
			assert.GreaterOrEqual(t, change, do.least, do.name)
			assert.LessOrEqual(t, change, do.most, do.name)
		}
	})
}

// A bucket without a limit that is configured, whoever took it out, is given it
// by the next call that names it: no memory of the bucket denies it.
func TestBucketWithoutAConfiguredLimit(t *testing.T) {
	for _, ghost := range []bool{false, true} {
		testEngines(t, func(t *testing.T, e *engine) {
			s := newProcess(t, e, perMinute())
			s.acquire("user-1", Amounts{"rpm": 1})
			item := s.item("user-1")
			left := ghostOf("tpm", -300_000)
			for attribute := range left {
				delete(item, attribute)
				if v := left[attribute]; ghost && v != nil {
					item[attribute] = v
				}
			}
			put(t, s.repo, item)
			_, err := s.limiter.Check(t.Context(), "user-1", model, nil) // seen just now
			require.NoError(t, err)
			s.acquire("user-1", Amounts{"rpm": 1, "tpm": 1000})
			want := int64(9000)
			if ghost {
				want -= 300
			}
			assert.Equal(t, want, s.level("user-1", "tpm"))
			s.deny("user-1", Amounts{"tpm": 9001})
		})
	}
}
