package tests

import (
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

// Whatever is corrected by three processes, with answers that are lost or late: no limit is ever
// deeper in debt than it may be, and once every call is rolled back nothing is there that was not
// there before.
func TestHistoriesOfBoundedDebt(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			s := liveProcess(t, memEngine(t), nil)
			s.family("key", "team")
			s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("tpm", 1000).WithMaxDebt(50), dynalimit.Monthly("usd", 1000, "UTC").WithMaxDebt(20))
			s.acquire("key", dynalimit.Amounts{"tpm": 900, "usd": 900})
			s.db.SetFaults((&luckyFaults{seed: seed}).fault)
			s.db.OnWrite(func(w ddbmem.Write) {
				m, err := schema.NewLimitSets().DecodeBucket(w.New, nil, 0)
				if err != nil || m == nil {
					return
				}
				for name, most := range map[string]int64{"tpm": 50, "usd": 20} {
					if i := m.Set.Index(name); i >= 0 && m.State(i).Level(w.Time.UnixMilli()) < -most*milli {
						t.Errorf("seed %d: %s is at %d", seed, name, m.Limits[i].Tokens)
					}
				}
			})
			var calls sync.WaitGroup
			for i := range 3 {
				p := s.peer(nil)
				for k := range 4 {
					mine := rand.New(rand.NewPCG(seed, uint64(10+4*i+k)))
					calls.Go(func() { p.correctsAtRandom(mine) })
				}
			}
			calls.Wait()
			s.db.SetFaults(nil)
			elapse(3 * time.Second)
			for _, id := range []string{"key", "team"} {
				assert.LessOrEqual(t, s.level(id, "tpm"), int64(101), "seed %d: %s", seed, id) // a token a minute and a half is refilled
				assert.LessOrEqual(t, s.level(id, "usd"), int64(100), "seed %d: %s", seed, id)
			}
		})
		if t.Failed() {
			return
		}
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

// correctsAtRandom acquires, corrects up and down, and rolls back, a few times.
func (s *process) correctsAtRandom(r *rand.Rand) {
	ctx := s.t.Context()
	for range 4 {
		lease, err := s.limiter.Acquire(ctx, "key", model, dynalimit.Amounts{"tpm": 1 + r.Int64N(20), "usd": 1 + r.Int64N(20)})
		if err != nil { // denied, or nobody answered
			elapse(time.Duration(r.IntN(300)) * time.Millisecond)
			continue
		}
		for range r.IntN(4) {
			limit := []string{"tpm", "usd"}[r.IntN(2)]
			delta := r.Int64N(160) - 60
			if held := lease.Consumed()[limit]; delta < -held {
				delta = -held
			}
			_ = lease.Adjust(ctx, dynalimit.Amounts{limit: delta})
			elapse(time.Duration(r.IntN(40)) * time.Millisecond)
		}
		if err := lease.Rollback(ctx); !errors.Is(err, dynalimit.ErrUnconfirmed) {
			require.NoError(s.t, err)
		}
	}
}
