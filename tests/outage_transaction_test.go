package tests

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// hangs are the ways in which one bucket can be silent.
var hangs = map[string]ddbmem.Fault{
	"drop": {Drop: true}, "hang": {Before: time.Hour}, "lost answers": {After: time.Hour},
	"5xx": {Error: &ddbmem.Error{Code: "InternalServerError"}},
}

// One sick partition of a parent: however a cascade is charged, its bucket alone opens, after
// one call or two that paid for it, and the others are charged as ever.
func TestOneSickLevelOfATransactionOpensAlone(t *testing.T) {
	for name, fault := range hangs {
		for _, mode := range []dynalimit.CascadeMode{dynalimit.CascadeParallel, dynalimit.CascadeTransaction} {
			for _, policy := range []dynalimit.UnavailablePolicy{dynalimit.Block, dynalimit.Allow, dynalimit.Local} {
				t.Run(name+" "+string(mode)+" "+string(policy), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := liveProcess(t, memEngine(t), &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, Cascade: mode, OnUnavailable: policy})
						s.family("key", "project", "org")
						s.acquire("key", dynalimit.Amounts{"rpm": 1})
						s.db.SetFaults(s.silenceOf("org", fault))
						stop := s.readsOthers()
						slow, admitted := 0, int64(1)
						for range 60 {
							began := time.Now()
							_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 1})
							if assert.LessOrEqual(t, time.Since(began), 2100*time.Millisecond); time.Since(began) > 100*time.Millisecond {
								slow++
							}
							if err == nil {
								admitted++
							} else {
								require.ErrorIs(t, err, dynalimit.ErrUnavailable)
							}
							elapse(300 * time.Millisecond)
						}
						assert.LessOrEqual(t, slow, 2)
						assert.Equal(t, 1, s.limiter.Health().SilentBuckets)
						assert.False(t, s.limiter.Health().Open)
						if policy != dynalimit.Block {
							assert.Equal(t, int64(61), admitted)
						}
						s.recovers()
						elapse(time.Minute)
						stop()
						doubt := s.limiter.Health().Doubt["rpm"]
						assert.LessOrEqual(t, doubt, int64(6), "what was under way")
						for _, id := range []string{"key", "project"} {
							assert.Equal(t, 1000-admitted, s.stored(id, "rpm").Tokens/milli, "charged, and nothing counted")
						}
						assert.InDelta(t, admitted, s.stored("org", "rpm").Consumed/milli, float64(doubt))
					})
				})
			}
		}
	}
}

// What a transaction took although no answer came is given back, although nobody calls who
// would ask its buckets.
func TestLostTransactionIsGivenBackWithoutTraffic(t *testing.T) {
	virtual(t, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, Cascade: dynalimit.CascadeTransaction}, func(t *testing.T, s *process) {
		s.family("key", "org")
		s.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.db.SetFaults(func(q *ddbmem.Request) (f ddbmem.Fault) {
			switch q.Operation {
			case "TransactWriteItems":
				f.After = time.Hour
			case "UpdateItem": // a probe that is answered would have the levels asked one by one
				f.Before = time.Hour
			}
			return f
		})
		_, err := s.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"rpm": 10})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		assert.Equal(t, int64(989), s.stored("key", "rpm").Tokens/milli, "it landed")
		s.db.SetFaults(nil)
		elapse(10 * time.Second)
		for _, id := range []string{"key", "org"} {
			assert.Equal(t, int64(999), s.stored(id, "rpm").Tokens/milli, id)
		}
		assert.Zero(t, s.limiter.Health().Doubt["rpm"])
	})
}
