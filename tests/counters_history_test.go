package tests

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Processes of every policy, one of which debits ahead and one of which charges in transactions,
// share buckets of an entity, its parent and a group, while limits of them go
// into shadow and out of it, windows end, answers are lost or late, and nobody answers for a while.
// Then the counters are what the leases say they used, to the token, but for what is in doubt or
// dropped; no quota was deeper in debt than it may be; and nothing was denied by a limit in shadow.
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
			}
			set()
			var used usage
			used.add(s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 1, "usd": 1}).Consumed())
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
			all := []*process{
				s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow}),
				s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Local, Prefetch: 250 * time.Millisecond}),
				s.peer(&dynalimit.Options{OnUnavailable: dynalimit.Allow, Cascade: dynalimit.CascadeTransaction}),
				s.peer(nil),
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
			unknown := dynalimit.Amounts{}
			for _, p := range all {
				require.NoError(t, p.limiter.Close(t.Context()))
				for _, list := range []dynalimit.Amounts{p.limiter.Health().Doubt, p.limiter.Health().Dropped} {
					for limit, n := range list {
						unknown[limit] += n
					}
				}
			}
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
	of map[string]int64
}

func (u *usage) add(amounts dynalimit.Amounts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]int64{}
	}
	for limit, n := range amounts {
		u.of[limit] += n
	}
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
				_ = lease.Adjust(ctx, dynalimit.Amounts{limit: max(-lease.Consumed()[limit], r.Int64N(200)-100)})
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
		used.add(lease.Consumed())
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
