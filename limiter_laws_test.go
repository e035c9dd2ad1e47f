package dynalimit_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/laws"
	"github.com/dynalimit/dynalimit/internal/laws/rules"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// inside lets histories look into limiters.
var inside = laws.Inside{Desk: (*dynalimit.RateLimiter).Desk, Held: (*dynalimit.Lease).Held, Config: dynalimit.ReadConfig}

// TestLaws plays generated histories of several limiters on one table and holds
// what was committed against the laws of docs/design/protocol.md.
func TestLaws(t *testing.T) {
	for _, mode := range laws.Modes {
		t.Run(mode.Name, func(t *testing.T) {
			first, end := laws.Seeds(t, 60, len(laws.Modes))
			tally, began := map[string]int{}, time.Now()
			for seed := first; seed < end; seed++ {
				r := laws.Play(t, seed, mode, inside)
				if len(r.Violations) > 0 {
					t.Fatalf("seed %d (replay with %s=%d): %d violations, the first:\n%s", seed, laws.SeedVariable, seed, len(r.Violations), r.First(5))
				}
				for what, n := range r.Tally {
					tally[what] += n
				}
			}
			t.Logf("%v each, %v", time.Since(began)/time.Duration(end-first), tally)
		})
	}
}

// TestLawsBreakWithoutRules leaves one clause out of what clients send, and
// plays histories until one breaks a law.
func TestLawsBreakWithoutRules(t *testing.T) {
	for name, rule := range map[string]rules.Rule{
		"rf = :seen": rules.Seen, "upper bound": rules.UpperBound, "lower bound": rules.LowerBound,
	} {
		t.Run(name, func(t *testing.T) {
			requireBroken(t, laws.Mode{Name: "exact", Store: rules.LeaveOut(rule)})
		})
	}
}

// TestLawsBreakWithoutRulesOfQuotas leaves one clause on quotas out of what clients with wrong
// clocks send.
func TestLawsBreakWithoutRulesOfQuotas(t *testing.T) {
	for name, rule := range map[string]rules.Rule{"w = :seen": rules.Window, "tk >= :low": rules.Room} {
		t.Run(name, func(t *testing.T) {
			mode := laws.Skewed()
			mode.Store = rules.LeaveOut(rule)
			requireBroken(t, mode)
		})
	}
}

// requireBroken plays histories until one breaks a law. Without the rarest rule one of some 150 does, and
// which ones depends on the order of goroutines.
func requireBroken(t *testing.T, mode laws.Mode) {
	t.Helper()
	const most = 4000
	for seed := range uint64(most) {
		if r := laws.Play(t, seed, mode, inside); len(r.Violations) > 0 {
			t.Logf("history %d: %s", seed, r.First(1))
			return
		}
	}
	require.Fail(t, "every law held", "in %d histories without this rule", most)
}

// TestLawsBreakWithoutTheHorizon lets limiters admit what they debited ahead for longer
// than they may, and give back what lapsed.
func TestLawsBreakWithoutTheHorizon(t *testing.T) {
	for name, change := range map[string]func(*laws.Mode){
		"horizon": func(m *laws.Mode) { m.Overstay = 100 },
		"lapsed":  func(m *laws.Mode) { m.Store = rules.LeaveOut(rules.GiveBackLapsed) },
	} {
		t.Run(name, func(t *testing.T) {
			mode := laws.Prefetching()
			change(&mode)
			requireBroken(t, mode)
		})
	}
}

// countedOnce is what the buckets of entities counted of a limit, in tokens: each call at the
// highest level alone.
func (s *process) countedOnce(limit string, entities ...string) (sum int64) {
	s.t.Helper()
	for _, id := range entities {
		of := s.stored(id, limit)
		assert.GreaterOrEqual(s.t, of.Passed, int64(0), id)
		sum += of.Consumed - of.Passed
	}
	return sum / milli
}

// Each level counts what it consumed, and which part of that a level above counted too:
// whatever a lease does, the rest adds up to what was consumed.
func TestLevelsOfACascadeCountWhatTheyPassOn(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project", "org")
		ctx := t.Context()
		once := func(want int64) {
			t.Helper()
			assert.Equal(t, want, s.countedOnce("tpm", "key", "project", "org"))
		}
		lease := s.acquire("key", dynalimit.Amounts{"tpm": 500})
		assert.Zero(t, s.stored("org", "tpm").Passed, "nothing is above it")
		once(500)
		require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 300, "rpm": 2}))
		once(800)
		assert.EqualValues(t, 2, s.countedOnce("rpm", "key", "project", "org"))
		require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"tpm": 100}))
		once(900)
		require.NoError(t, lease.Settle(ctx, dynalimit.Amounts{"tpm": 250}))
		once(250)
		require.NoError(t, s.acquire("project", dynalimit.Amounts{"tpm": 1000}).Rollback(ctx))
		once(250)
		s.deny("key", dynalimit.Amounts{"tpm": 20_000})
		once(250)
		assert.EqualValues(t, 250*milli, s.stored("key", "tpm").Passed)
	})
}

// What a lease gives back comes off the counter that its take was added to, also when its
// parent or the parent's limits are others by then.
func TestGiveBacksComeOffTheCounterOfTheirTake(t *testing.T) {
	for name, change := range map[string]func(*process) error{
		"another parent": func(s *process) error {
			e, err := s.repo.GetEntity(s.t.Context(), "key")
			require.NoError(s.t, err)
			e.ParentID, e.Cascade = "", false
			_, err = s.repo.UpdateEntity(s.t.Context(), e)
			return err
		},
		"unlimited": func(s *process) error {
			return s.repo.SetLimits(s.t.Context(), admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothModes(t, func(t *testing.T, s *process) {
				s.family("key", "org")
				kept, gone := s.acquire("key", dynalimit.Amounts{"tpm": 700}), s.acquire("key", dynalimit.Amounts{"tpm": 50})
				require.NoError(t, change(s))
				alone := s.acquire("key", dynalimit.Amounts{"tpm": 20})
				require.NoError(t, kept.Settle(t.Context(), dynalimit.Amounts{"tpm": 400}))
				require.NoError(t, gone.Rollback(t.Context()))
				assert.EqualValues(t, 420, s.countedOnce("tpm", "key", "org"))
				assert.EqualValues(t, 400*milli, s.stored("key", "tpm").Passed)
				require.NoError(t, alone.Rollback(t.Context()))
				assert.EqualValues(t, 400, s.countedOnce("tpm", "key", "org"))
			})
		})
	}
}

// A lease that consumes further after its parent lost a limit goes on as it began: what it
// gives back comes off the counter that its take was added to.
func TestConsumptionAfterAChangeCountsAsTheLeaseDid(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "org")
		ctx := t.Context()
		lease := s.acquire("key", dynalimit.Amounts{"tpm": 700})
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}))
		require.NoError(t, lease.Consume(ctx, dynalimit.Amounts{"tpm": 100}))
		assert.EqualValues(t, 800, s.countedOnce("tpm", "key", "org"))
		require.NoError(t, lease.Rollback(ctx))
		assert.Zero(t, s.stored("key", "tpm").Passed)
		assert.Zero(t, s.countedOnce("tpm", "key", "org"))
	})
}

// A lease that consumes of a limit which it has not used yet begins with it by what its levels
// have then, whatever they had when it was made.
func TestLimitsThatALeaseUsesLater(t *testing.T) {
	for name, of := range map[string]struct{ before, after []dynalimit.Limit }{
		"its parent lost it": {[]dynalimit.Limit{dynalimit.PerMinute("rpm", 1000), dynalimit.PerMinute("tpm", 1000)}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}},
		"its parent has it":  {[]dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000), dynalimit.PerMinute("tpm", 1000)}},
	} {
		t.Run(name, func(t *testing.T) {
			bothModes(t, func(t *testing.T, s *process) {
				s.family("key", "org")
				ctx := t.Context()
				require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, of.before))
				lease, mixed := s.acquire("key", dynalimit.Amounts{"rpm": 1}), s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 5})
				require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, of.after))
				for _, l := range []*dynalimit.Lease{lease, mixed} {
					require.NoError(t, l.Consume(ctx, dynalimit.Amounts{"tpm": 100}))
				}
				assert.EqualValues(t, 205, s.countedOnce("tpm", "key", "org"))
				require.NoError(t, lease.Adjust(ctx, dynalimit.Amounts{"tpm": 20}))
				require.NoError(t, mixed.Settle(ctx, dynalimit.Amounts{"tpm": 50}))
				assert.EqualValues(t, 170, s.countedOnce("tpm", "key", "org"))
				require.NoError(t, lease.Rollback(ctx))
				assert.EqualValues(t, 50, s.countedOnce("tpm", "key", "org"))
			})
		})
	}
}

// What a lease took further at some levels and another one denied comes off the counters that it
// was added to, also where a level has got the limit since.
func TestDeniedConsumptionIsCountedNowhere(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project", "org")
		ctx := t.Context()
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 1000)}))
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "project"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 5)}))
		lease := s.acquire("key", dynalimit.Amounts{"rpm": 2})
		require.NoError(t, s.repo.SetLimits(ctx, admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1000)}))
		p := s.peer(s.limiterOptions())
		p.acquire("org", dynalimit.Amounts{"rpm": 1})
		before := s.countedOnce("rpm", "key", "project", "org")
		p.acquire("project", dynalimit.Amounts{"rpm": 2}) // of which the lease's process has not heard
		require.ErrorIs(t, lease.Consume(ctx, dynalimit.Amounts{"rpm": 2}), dynalimit.ErrLimitExceeded)
		assert.Zero(t, s.stored("org", "rpm").Passed)
		assert.Equal(t, before+2, s.countedOnce("rpm", "key", "project", "org"))
	})
}

// What is debited ahead of calls is passed on as the calls are that it serves, and what of it
// lapses is not.
func TestPrefetchPassesOnWhatItsCallsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := prefetching(t, 1, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}, Prefetch: 500 * time.Millisecond})
		s, calls := all[0], 0
		s.family("key", "org")
		stream := func() {
			for range 300 {
				s.acquire("key", dynalimit.Amounts{"rpm": 1})
				calls++
				elapse(10 * time.Millisecond)
			}
		}
		stream()
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Entity: "org"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 10)}))
		stream() // which org does not limit any more
		stop(t, all)
		key, org := s.stored("key", "rpm"), s.stored("org", "rpm")
		assert.EqualValues(t, calls, key.Consumed/milli)
		assert.Equal(t, org.Consumed, key.Passed, "what both counted")
		assert.EqualValues(t, calls, s.countedOnce("rpm", "key", "org"))
	})
}

// What a call that fails took at some of its levels is given back, also where the bucket is busy
// then: nobody has its lease, who would do so again.
func TestGiveBackOfAFailedAcquireWaits(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}}, func(t *testing.T, s *process) {
		s.family("key", "org")
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		var took atomic.Bool
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			switch org := bytes.Contains(r.Body, []byte("ENTITY#org")); {
			case r.Operation != "UpdateItem":
				return ddbmem.Fault{}
			case !org && !took.Swap(true):
				return ddbmem.Fault{}
			}
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		})
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 30})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		require.True(t, took.Load())
		assert.EqualValues(t, 31, s.stored("key", "rpm").Consumed/milli, "not given back yet")
		s.recovers()
		elapse(5 * time.Second)
		assert.EqualValues(t, 1, s.stored("key", "rpm").Consumed/milli)
		assert.EqualValues(t, 999, s.level("key", "rpm"))
		assert.EqualValues(t, 1, s.countedOnce("rpm", "key", "org"))
		assert.Empty(t, s.limiter.Health().Doubt)
	})
}

// A bucket below a parent with seven limits stays within the KB that a write is charged for.
func TestSevenLimitsBelowAParentStayWithinAKilobyte(t *testing.T) {
	var limits []dynalimit.Limit
	all := dynalimit.Amounts{}
	for i, name := range []string{"rpm", "tpm", "rpd", "tpd", "itpm", "otpm", "usd"} {
		limits = append(limits, dynalimit.PerMinute(name, 1_000_000_000))
		all[name] = 123_456_789 + int64(i)
	}
	s := memProcess(t, &dynalimit.Options{Limits: limits})
	s.acquire(uuid, all)
	alone := itemSize(s.item(uuid))
	s.delete(uuid)
	s.family(uuid, "org")
	for range 2 {
		s.acquire(uuid, all)
	}
	below := itemSize(s.item(uuid))
	t.Logf("a bucket of 7 limits: %d bytes, below a parent %d: %d bytes a limit", alone, below, (below-alone)/len(all))
	assert.LessOrEqual(t, below, 1024)
	for _, name := range []string{"rpm", "usd"} {
		assert.Equal(t, s.stored(uuid, name).Consumed, s.stored(uuid, name).Passed, name)
	}
	assert.EqualValues(t, 1, s.used(func() { s.acquire(uuid, dynalimit.Amounts{"rpm": 1}) }).Operations["UpdateItem"].WriteUnits/2)
}

// Processes of every policy, one of which debits ahead and one of which charges in transactions,
// share buckets of an entity, its parent and a group, while limits of them go
// into shadow and out of it, the entity becomes unlimited and counted, and limited again, windows end, answers are lost or late, and nobody answers for a while.
// Then the counters are what the leases say they used, to the token, but for what is in doubt or
// dropped; no quota was deeper in debt than it may be; and nothing was denied by a limit in shadow.
// Observers hear of each call's and each write's begin and end once, and what they hear that leases
// hold, and of what was dropped, adds up to the same.
func TestHistoriesOfCounters(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			s := liveProcess(t, memEngine(t), nil)
			s.family("key", "team")
			s.ofGroup(model)
			changes := rand.New(rand.NewPCG(seed, 2))
			set := func() {
				shadow := func(l dynalimit.Limit) dynalimit.Limit {
					l.Shadow = changes.IntN(3) > 0
					return l
				}
				usd := dynalimit.Limit{Name: "usd", Capacity: 300, Window: "hour", MaxDebt: 50}
				for _, at := range []admin.Scope{{Everyone: true}, {Entity: "team"}} { // nobody may answer
					_ = s.repo.SetLimits(t.Context(), at, []dynalimit.Limit{dynalimit.PerHour("rpm", 100_000), shadow(dynalimit.PerHour("tpm", 300)), shadow(usd)})
				}
				_ = s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: group}, []dynalimit.Limit{shadow(usd)})
				own := admin.LimitConfig{Admit: true, Only: true, Version: admin.AnyVersion} // says nothing of limits
				own.Unlimited = changes.IntN(2) == 0
				own.Counted = own.Unlimited
				_, _ = s.repo.SetConfig(t.Context(), admin.Scope{Entity: "key"}, own)
			}
			set()
			var used usage
			first := s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 1, "usd": 1}).Used()
			used.add(first)
			s.db.OnWrite(func(w ddbmem.Write) {
				if m, err := schema.NewLimitSets().DecodeBucket(w.New, nil, 0); err == nil && m != nil {
					if i := m.Set.Index("usd"); i >= 0 && (m.Limits[i].Tokens < -50*milli || m.Limits[i].Tokens > m.Limits[i].Burst) {
						t.Errorf("seed %d: usd is at %d", seed, m.Limits[i].Tokens)
					}
				}
			})
			if seed%4 > 0 {
				s.db.SetFaults((&luckyFaults{seed: seed}).fault)
			}
			heard := &tidings{open: map[any]bool{}, held: first, dropped: dynalimit.Amounts{}}
			all := []*process{
				s.peer(&dynalimit.Options{Observer: heard.observer(), OnUnavailable: dynalimit.Allow}),
				s.peer(&dynalimit.Options{Observer: heard.observer(), OnUnavailable: dynalimit.Local, Prefetch: 250 * time.Millisecond}),
				s.peer(&dynalimit.Options{Observer: heard.observer(), OnUnavailable: dynalimit.Allow, ChargeMode: dynalimit.ChargeTransaction}),
				s.peer(&dynalimit.Options{Observer: heard.observer()}),
			}
			var calls sync.WaitGroup
			for i := range 12 {
				mine := rand.New(rand.NewPCG(seed, uint64(10+i)))
				calls.Go(func() { all[i%4].usesAtRandom(mine, &used) })
			}
			calls.Go(func() {
				for i := range 6 {
					elapse(time.Duration(changes.IntN(400)) * time.Millisecond)
					if set(); i == 3 && seed%3 == 0 {
						s.down(ddbmem.Fault{Drop: true})
						elapse(5 * time.Second)
						s.db.SetFaults(nil)
					}
				}
			})
			calls.Wait()
			s.db.SetFaults(nil)
			elapse(40 * time.Second)
			unknown, dropped := dynalimit.Amounts{}, dynalimit.Amounts{}
			for _, p := range all {
				require.NoError(t, p.limiter.Close(t.Context()))
				addTo(dropped, p.limiter.Health().Dropped)
				addTo(unknown, p.limiter.Health().Doubt)
			}
			addTo(unknown, dropped)
			assert.Empty(t, heard.open, "seed %d: a call or a write has no end", seed)
			assert.Empty(t, heard.wrong, "seed %d", seed)
			assert.Equal(t, dropped, heard.dropped, "seed %d", seed)
			assert.Equal(t, used.of, heard.held, "seed %d", seed)
			for _, at := range [][2]string{{model, "rpm"}, {model, "tpm"}, {model, "usd"}, {group, "usd"}} {
				for _, id := range []string{"key", "team"} {
					assert.InDelta(t, used.of[at[1]], s.storedOn(id, at[0], at[1]).Consumed/milli, float64(unknown[at[1]]), "seed %d: %s of %s", seed, at, id)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// usage is what leases say they used.
type usage struct {
	mu sync.Mutex
	of dynalimit.Amounts
}

func (u *usage) add(amounts dynalimit.Amounts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = dynalimit.Amounts{}
	}
	addTo(u.of, amounts)
}

// usesAtRandom acquires, with little time now and then, consumes further, corrects up and down, and
// settles or rolls back.
func (s *process) usesAtRandom(r *rand.Rand, used *usage) {
	for range 6 {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Hour)
		if r.IntN(8) == 0 {
			ctx, cancel = context.WithTimeout(s.t.Context(), time.Duration(1+r.IntN(8))*time.Millisecond)
		}
		lease, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"rpm": 1, "tpm": r.Int64N(90), "usd": r.Int64N(90)})
		cancel()
		if err != nil {
			if denial, denied := errors.AsType[*dynalimit.LimitExceededError](err); denied {
				assert.False(s.t, denial.Primary().Limit.Shadow)
			}
			elapse(time.Duration(r.IntN(300)) * time.Millisecond)
			continue
		}
		ctx = s.t.Context()
		for range r.IntN(5) {
			limit := []string{"tpm", "usd"}[r.IntN(2)]
			if r.IntN(4) == 0 {
				_ = lease.Consume(ctx, dynalimit.Amounts{limit: r.Int64N(60)})
			} else {
				_ = lease.Adjust(ctx, dynalimit.Amounts{limit: max(-lease.Used()[limit], r.Int64N(200)-100)})
			}
			if r.IntN(12) == 0 {
				elapse(time.Duration(r.IntN(50)) * time.Minute)
			}
			elapse(time.Duration(r.IntN(60)) * time.Millisecond)
		}
		switch r.IntN(4) {
		case 0:
			_ = lease.Rollback(ctx)
		case 3:
			settled := make(chan error, 1)
			if lease.SettleSoon(ctx, dynalimit.Amounts{"tpm": r.Int64N(150), "usd": r.Int64N(150)}, func(err error) { settled <- err }) == nil {
				<-settled
			}
		case 1:
			_ = lease.Settle(ctx, dynalimit.Amounts{"tpm": r.Int64N(150), "usd": r.Int64N(150)})
		default:
			_ = lease.Settle(ctx, nil)
		}
		used.add(lease.Used())
	}
}

// luckyFaults are answers that are lost, late or throttled, now and then.
type luckyFaults struct {
	seed uint64
	mu   sync.Mutex
	luck *rand.Rand
}

func (l *luckyFaults) fault(r *ddbmem.Request) (f ddbmem.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.luck == nil {
		l.luck = rand.New(rand.NewPCG(l.seed, 1))
	}
	f.After = time.Duration(l.luck.IntN(5)) * time.Millisecond
	switch n := l.luck.IntN(40); {
	case r.Operation != "UpdateItem":
	case n == 0:
		f.Lose = true
	case n == 1:
		f.After = 1500 * time.Millisecond
	case n == 2:
		f.Error = &ddbmem.Error{Code: "ThrottlingException"}
	}
	return f
}
