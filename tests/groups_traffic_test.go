package tests

import (
	"errors"
	"fmt"
	"maps"
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
)

// Of 200 racing calls of four processes on two models, exactly as many are admitted as the group
// of both allows, at the key or at its team.
func TestRacersOnAGroup(t *testing.T) {
	for _, owner := range []string{"key-0", "team"} {
		t.Run(owner, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.family("key-0", "team")
				s.ofGroup(model, otherModel)
				s.limits(admin.Scope{Everyone: true}, dynalimit.PerDay("rpm", 1_000_000))
				s.limits(admin.Scope{Entity: owner, Resource: group}, dynalimit.PerDay("rpm", 100))
				assert.EqualValues(t, 100, s.race("key-0", dynalimit.Amounts{"rpm": 1}, model, otherModel))
				s.db.SetFaults(nil)
				assert.EqualValues(t, 200, 100+2_000_000-s.levelOn("key-0", model, "rpm")-s.levelOn("key-0", otherModel, "rpm"), "the others were given back")
			})
		})
	}
}

// race has four processes make 200 calls at once, on models in turn, and says how many are
// admitted. Requests are slow from then on.
func (s *process) race(entity string, amounts dynalimit.Amounts, models ...string) int64 {
	s.t.Helper()
	s.db.SetFaults(after10ms)
	processes := []*process{s, s.peer(nil), s.peer(nil), s.peer(nil)}
	var admitted atomic.Int64
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			_, err := processes[i/2%4].limiter.Acquire(s.t.Context(), entity, models[i%len(models)], amounts)
			if err == nil {
				admitted.Add(1)
			} else if !errors.Is(err, dynalimit.ErrLimitExceeded) {
				s.t.Error(err)
			}
		})
	}
	calls.Wait()
	return admitted.Load()
}

// inTraffic has a hundred callers of four processes acquire an amount of a limit for the entity
// key, on models in turn, with others beside it, and give a part of every third back, until they
// are stopped: with latencies, throttling and lost answers. It returns what they were admitted.
func (s *process) inTraffic(limit string, amount, back int64, beside dynalimit.Amounts, models ...string) (admitted *atomic.Int64, stop func()) {
	s.t.Helper()
	var n atomic.Int64
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		f := ddbmem.Fault{Before: 3 * time.Millisecond, After: 2 * time.Millisecond}
		if k := n.Add(1); r.Operation == "UpdateItem" && k%97 == 0 {
			f.Lose = true
		} else if k%89 == 0 {
			f.Error = &ddbmem.Error{Code: "ThrottlingException"}
		}
		return f
	})
	amounts := dynalimit.Amounts{limit: amount}
	maps.Copy(amounts, beside)
	admitted = new(atomic.Int64)
	ended := make(chan struct{})
	var callers sync.WaitGroup
	processes := []*process{s, s.peer(nil), s.peer(nil), s.peer(nil)}
	for i := range 100 {
		callers.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-ended:
					return
				case <-time.After(time.Duration(5000+370*i) * time.Millisecond):
				}
				lease, err := processes[i%4].limiter.Acquire(s.t.Context(), "key", models[(i+k)%len(models)], amounts, dynalimit.WithIgnoreUnknown())
				switch {
				case err == nil:
					admitted.Add(amount)
					if k%3 == 0 && lease.Adjust(s.t.Context(), dynalimit.Amounts{limit: -back}) == nil {
						admitted.Add(-back)
					}
				case errors.Is(err, dynalimit.ErrLimitExceeded), errors.Is(err, dynalimit.ErrUnavailable), errors.Is(err, dynalimit.ErrContended):
				default:
					s.t.Error(err)
				}
			}
		})
	}
	return admitted, func() { close(ended); callers.Wait() }
}

// Four processes with a hundred callers, while the group's limit is added, lowered, raised, moved
// to a plan and to the parent, and the resource leaves the group and comes back: from a TTL after
// each change on, no more is admitted than it allows, with latencies, throttling and lost answers.
func TestGroupChangesInTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 2 * time.Minute // a configuration that is stale may serve for a second one
		s := liveProcess(t, memEngine(t), nil)
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "team"}))
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "key", ParentID: "team", Cascade: true, Plan: "pro"}))
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerSecond("tpm", 1_000_000))
		admitted, stop := s.inTraffic("tpm", 500, 200, nil, model, otherModel)
		defer stop()
		perMinute := func(n int64) dynalimit.Limit { return dynalimit.PerMinute("tpm", n) }
		everyone, ofPlan, ofTeam := admin.Scope{Everyone: true, Resource: group}, admin.Scope{Plan: "pro", Resource: group}, admin.Scope{Entity: "team", Resource: group}
		for i, phase := range []struct {
			what   string
			change func()
			most   int64 // tokens a minute; 0 for no limit
		}{
			{"no group", func() {}, 0},
			{"added", func() { s.ofGroup(model, otherModel); s.limits(everyone, perMinute(6000)) }, 6000},
			{"lowered", func() { s.limits(everyone, perMinute(1200)) }, 1200},
			{"raised", func() { s.limits(everyone, perMinute(9000)) }, 9000},
			{"moved to a plan", func() {
				s.limits(ofPlan, perMinute(3000))
				require.NoError(t, s.repo.DeleteLimits(t.Context(), admin.Scope{Everyone: true, Resource: group}))
			}, 3000},
			{"moved to the parent", func() {
				s.limits(ofTeam, perMinute(1800))
				require.NoError(t, s.repo.DeleteLimits(t.Context(), ofPlan))
			}, 1800},
			{"out of the group", func() {
				for _, m := range []string{model, otherModel} {
					require.NoError(t, s.repo.DeleteLimits(t.Context(), admin.Scope{Everyone: true, Resource: m}))
				}
			}, 0},
			{"back in the group", func() { s.ofGroup(model, otherModel) }, 1800},
		} {
			phase.change()
			elapse(ttl)
			before := admitted.Load()
			const minutes = 5
			elapse(minutes * time.Minute)
			got := admitted.Load() - before
			t.Logf("%d %s: %d tokens in %d minutes, %d allowed", i, phase.what, got, minutes, minutes*phase.most)
			if phase.most == 0 {
				assert.Greater(t, got, int64(minutes*9000), phase.what)
				continue
			}
			assert.LessOrEqual(t, got, (minutes+1)*phase.most, fmt.Sprintf("%s: what is refilled in the time, and one burst", phase.what))
			assert.Greater(t, got, minutes*phase.most*8/10, phase.what)
		}
	})
}
