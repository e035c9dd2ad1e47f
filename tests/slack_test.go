package tests

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/inside"
)

// atFull is some processes on one full bucket of 1,000 tokens, 1,000 a second, with
// 2 ms each way.
func atFull(t *testing.T, processes int) []*process {
	e := memEngine(t)
	opts := &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000)}}
	first := liveProcess(t, e, opts)
	all := []*process{first}
	for range processes - 1 {
		all = append(all, first.on(e.open(t, first.repo.table, &dynalimit.RepositoryOptions{Now: time.Now}), opts))
	}
	for _, s := range all {
		s.acquire("shared", dynalimit.Amounts{"rpm": 1})
	}
	elapse(2 * time.Second)
	e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Before: 2 * time.Millisecond, After: 2 * time.Millisecond}
	})
	return all
}

// leaves is what the bucket holds right after a take of 7 tokens, in millitokens.
func (s *process) leaves() int64 {
	s.t.Helper()
	lease := s.acquire("shared", dynalimit.Amounts{"rpm": 7})
	last := inside.Levels(lease)[0].Last
	return last.Image.State(0).Level(last.Now)
}

// Processes that collide at full forgo a little, at most an eighth; once the others
// have left, the one that stays leaves the bucket exactly again, from its first take
// on, and with one request a take from the second on.
func TestLeftAloneAFullBucketIsLeftExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := atFull(t, 6)
		forgone := false
		for round := 0; round < 5 || !forgone && round < 50; round++ { // whether they collide is up to the scheduler
			done := make(chan int64)
			for _, s := range all {
				go func() { done <- s.leaves() }()
			}
			least := int64(1_000_000)
			for range all {
				least = min(least, <-done)
			}
			forgone = forgone || least < 1_000_000-6*7*milli
			require.GreaterOrEqual(t, least, int64(1_000_000-6*7*milli-1_000_000/8))
			elapse(40 * time.Millisecond)
		}
		require.True(t, forgone, "they collided")
		elapse(1010 * time.Millisecond) // longer than an image is believed
		for i := range 20 {
			used := all[0].used(func() { require.EqualValues(t, 993_000, all[0].leaves()) })
			if i > 0 {
				require.EqualValues(t, 1, used.Requests())
			}
			elapse(20 * time.Millisecond)
		}
	})
}

// Transactions of many processes on full buckets commute too, and one that is left
// alone needs one request a call again.
func TestTransactionsAtFullCommute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := atFull(t, 20)
		all[0].family("shared", "org")
		one := func(s *process) {
			s.acquire("shared", dynalimit.Amounts{"rpm": 1}, dynalimit.WithCascade(dynalimit.CascadeTransaction))
		}
		for _, s := range all {
			s.repo.InvalidateConfig("shared", model)
			one(s)
		}
		elapse(2 * time.Second)
		const rounds = 20
		used := all[0].used(func() {
			for range rounds {
				var group sync.WaitGroup
				for _, s := range all {
					group.Go(func() { one(s) })
				}
				group.Wait()
				elapse(10 * time.Millisecond)
			}
		})
		perGrant := float64(used.Requests()) / rounds / float64(len(all))
		t.Logf("%.2f requests a grant, %.0f write units", perGrant, used.WriteUnits())
		assert.Less(t, perGrant, 1.5)
		elapse(2 * time.Second)
		for i := range 10 {
			used := all[0].used(func() { one(all[0]) })
			if i > 0 {
				require.EqualValues(t, 1, used.Requests())
			}
			elapse(20 * time.Millisecond)
		}
	})
}
