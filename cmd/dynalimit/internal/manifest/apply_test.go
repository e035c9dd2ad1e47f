package manifest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
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

// old and next differ in every way that a plan knows.
const (
	old = `
system: {limits: {rpm: 60}}
resources: {gone: {limits: {rpm: 1}}, gpt-4: {limits: {rpm: 1}}}
plans: {pro: {default: {limits: {rpm: 100}}}, gone: {default: {blocked: true}}}
entities:
  org: {}
  team: {parent: org, plan: gone}
  key: {parent: team, default: {limits: {rpm: 5}}, resources: {gone: {blocked: true}}}
  gone: {parent: org, default: {limits: {rpm: 5}}}
  gone-too: {parent: gone}
`
	next = `
system: {limits: {rpm: 90}, on_unavailable: allow}
resources: {gpt-4: {limits: {rpm: 2}}, new: {unlimited: true}}
plans: {pro: {default: {limits: {rpm: 200}}}, new: {default: {limits: {rpm: 1}}}}
entities:
  org: {name: moved, parent: new}
  team: {parent: org, plan: new, metadata: {a: 1}}
  key: {parent: team, cascade: true, default: {limits: {rpm: 6}}}
  new: {}
  new-too: {parent: new, plan: new, default: {limits: {rpm: 7}}}
`
)

// stop ends a process at its nth request, before it or after.
func stop(db *ddbmem.DB, n int64, before bool, kill context.CancelFunc) {
	var seen atomic.Int64
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		switch i := seen.Add(1); {
		case i == n && !before:
			kill()
			return ddbmem.Fault{Lose: true}
		case i >= n:
			kill()
			return ddbmem.Fault{Drop: true}
		}
		return ddbmem.Fault{}
	})
}

// Wherever an apply is killed, what is there limits as before or as after, and the next
// one goes on.
func TestApplyKilledAtAnyRequestGoesOn(t *testing.T) {
	for _, before := range []bool{true, false} {
		for n := int64(1); ; n++ {
			reached := false
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "")
				w.apply(t, old, Options{})
				m := parsed(t, next)
				o := Options{Prune: true}
				p := w.plan(t, m, o)
				for _, action := range []Action{Create, Update, Delete} {
					require.Positive(t, p.Count(action), lines(p))
				}
				ctx, kill := context.WithCancel(t.Context())
				stop(w.db, n, before, kill)
				out, err := Apply(ctx, Of(admin.New(w.repo)), p, func(int, int) {})
				reached = err != nil || len(out.Failed) > 0
				w.db.SetFaults(nil)
				kill()
				c, err := w.repo.ResolveLimits(t.Context(), "key", "gpt-4")
				require.NoError(t, err)
				require.NotEmpty(t, c.Limits, "never without limits")
				if e, err := admin.New(w.repo).Entities.Get(t.Context(), "team"); err == nil && e.Plan != "" {
					require.NotEmpty(t, must(admin.New(w.repo).Limits.GetConfig(t.Context(), admin.Scope{Plan: e.Plan})), "nobody is on a plan without limits")
				}
				w.apply(t, next, o)
			})
			if !reached {
				require.Greater(t, n, int64(20))
				break
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// With answers lost, requests dropped and throttled at random, every change is made, or
// is said not to be.
func TestApplyAgainstFaults(t *testing.T) {
	for seed := range seeds(30) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "")
			w.apply(t, old, Options{})
			m, o := parsed(t, next), Options{Prune: true}
			p := w.plan(t, m, o)
			random := rand.New(rand.NewPCG(seed, 0))
			draws := make(chan float64, 1)
			go func() {
				for {
					select {
					case draws <- random.Float64():
					case <-t.Context().Done():
						return
					}
				}
			}()
			w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
				switch draw := <-draws; {
				case draw < 0.1:
					return ddbmem.Fault{Lose: true}
				case draw < 0.2:
					return ddbmem.Fault{Drop: true}
				case draw < 0.3:
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException", Status: 400}}
				}
				return ddbmem.Fault{After: 5 * time.Millisecond}
			})
			out, err := Apply(t.Context(), Of(admin.New(w.repo)), p, func(int, int) {})
			w.db.SetFaults(nil)
			require.Zero(t, out.Conflicts(), out.Failed)
			if err == nil {
				require.Empty(t, out.Failed)
				w.settled(t, m, o)
				return
			}
			assert.Positive(t, out.Left)
			w.apply(t, next, o)
		})
	}
}

// What somebody changes between the plan and the apply stays, and is said; the rest is made.
func TestApplyOverwritesNothingThatWasNotPlanned(t *testing.T) {
	w := newWorld(t, "tenant")
	w.apply(t, old, Options{})
	m, o := parsed(t, next), Options{Prune: true}
	p := w.plan(t, m, o)
	ctx := t.Context()
	require.NoError(t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Everyone: true}, rpm(7).Limits))
	require.NoError(t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "gone"}, rpm(7).Limits))
	require.NoError(t, admin.New(w.repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "new"}, rpm(7).Limits))
	require.NoError(t, admin.New(w.repo).Entities.Create(ctx, admin.Entity{ID: "new", Name: "by hand"}))
	team := must(admin.New(w.repo).Entities.Get(ctx, "team"))
	team.Name = "by hand"
	must(admin.New(w.repo).Entities.Update(ctx, team))
	gone := must(admin.New(w.repo).Entities.Get(ctx, "gone-too"))
	gone.Name = "by hand"
	must(admin.New(w.repo).Entities.Update(ctx, gone))

	out, err := Apply(ctx, Of(admin.New(w.repo)), p, func(int, int) {})
	require.NoError(t, err)
	assert.Zero(t, out.Left)
	var failed []string
	for _, f := range out.Failed {
		assert.True(t, f.Conflict, f.What)
		failed = append(failed, f.What)
	}
	assert.Equal(t, []string{
		"record of entity new", "record of entity team", "limits of resource new", "limits of system", // they admit more
		"limits of resource gone", "record of entity gone-too", "record of entity gone",
	}, failed)
	assert.Equal(t, len(p.Changes)-7, out.Done)
	assert.Equal(t, rpm(7).Limits, must(admin.New(w.repo).Limits.GetConfig(ctx, admin.Scope{Everyone: true})).Limits)
	assert.Equal(t, rpm(7).Limits, must(admin.New(w.repo).Limits.GetConfig(ctx, admin.Scope{Everyone: true, Resource: "gone"})).Limits)
	assert.Equal(t, "by hand", must(admin.New(w.repo).Entities.Get(ctx, "team")).Name)
	assert.Equal(t, "by hand", must(admin.New(w.repo).Entities.Get(ctx, "gone-too")).Name)
	assert.Equal(t, int64(2), must(admin.New(w.repo).Limits.GetConfig(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"})).Limits[0].Capacity)
	w.apply(t, next, Options{Prune: true, Adopt: true})
}

// narrow is a table that refuses a source, as one could that is stricter than the parser.
type narrow struct{ admin.Limits }

func (n narrow) SetConfigs(ctx context.Context, changes []admin.ScopedConfig) ([]error, error) {
	for _, c := range changes {
		if c.Scope.Resource == "gpt-4" {
			return nil, &dynalimit.ValidationError{Field: "limits", Reason: "are too many"}
		}
	}
	return n.Limits.SetConfigs(ctx, changes)
}

func TestAChangeThatIsRefusedFailsAlone(t *testing.T) {
	w := newWorld(t, "")
	p := w.plan(t, parsed(t, old), Options{})
	out, err := Apply(t.Context(), Table{narrow{admin.New(w.repo).Limits}, admin.New(w.repo).Entities}, p, func(int, int) {})
	require.NoError(t, err)
	require.Len(t, out.Failed, 1)
	assert.Equal(t, "limits of resource gpt-4", out.Failed[0].What)
	assert.False(t, out.Failed[0].Conflict)
	assert.Equal(t, len(p.Changes)-1, out.Done)
}

// Two applies of one plan at once end as one of them would.
func TestTwoAppliesOfOnePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.apply(t, old, Options{})
		w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Before: 3 * time.Millisecond, After: 2 * time.Millisecond}
		})
		m, o := parsed(t, next), Options{Prune: true}
		p := w.plan(t, m, o)
		results := make(chan error)
		for range 2 {
			repo := w.open(t, "")
			go func() {
				out, err := Apply(t.Context(), Of(admin.New(repo)), p, func(int, int) {})
				if len(out.Failed) > 0 {
					err = errors.Join(err, fmt.Errorf("%+v", out.Failed))
				}
				results <- err
			}()
		}
		require.NoError(t, <-results)
		require.NoError(t, <-results)
		w.settled(t, m, o)
	})
}

// The batch that is under way when Ctrl-C comes is finished; nothing more begins.
func TestApplyStopsAfterABatch(t *testing.T) {
	w := newWorld(t, "")
	m := parsed(t, many(400))
	p := w.plan(t, m, Options{})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	calls := 0
	out, err := Apply(ctx, Of(admin.New(w.repo)), p, func(done, total int) {
		if calls++; calls == 3 {
			assert.Equal(t, 1201, total)
			interrupt()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 3*batch, out.Done)
	assert.Equal(t, 1201-out.Done, out.Left)
	w.apply(t, many(400), Options{})
}

// Ctrl-C in the middle of a batch breaks nothing off: how it ended is known.
func TestApplyFinishesWhatIsUnderWay(t *testing.T) {
	w := newWorld(t, "")
	p := w.plan(t, parsed(t, many(200)), Options{})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var writes atomic.Int64
	w.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "TransactWriteItems" && writes.Add(1) == 2 { // the first of two of the second batch
			interrupt()
		}
		return ddbmem.Fault{}
	})
	out, err := Apply(ctx, Of(admin.New(w.repo)), p, func(int, int) {})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, batch, out.Done)
	assert.Empty(t, out.Failed)
}

// slow makes each request take 5 ms.
func slow(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{After: 5 * time.Millisecond} }

// timed fails if something takes longer than it may.
func (w *world) timed(t *testing.T, what string, most time.Duration, do func()) {
	t.Helper()
	before, start := w.db.Meter(), time.Now()
	do()
	t.Logf("%s: %v, %d requests", what, time.Since(start), w.db.Meter().Sub(before).Requests())
	assert.Less(t, time.Since(start), most, what)
}

// all applies a plan; everything has to work.
func (w *world) all(t *testing.T, p Plan) {
	t.Helper()
	out, err := Apply(t.Context(), Of(admin.New(w.repo)), p, func(int, int) {})
	require.NoError(t, err)
	require.Empty(t, out.Failed)
}

// entities is how many a test has: DYNALIMIT_ENTITIES, such as 10000, or fewer.
func manyEntities(t *testing.T, fewer int) int {
	t.Helper()
	text := os.Getenv("DYNALIMIT_ENTITIES")
	if text == "" {
		return fewer
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// Entities with a record and two sources each, at 5 ms a request: 10,000 are planned in 10 s.
func TestManyEntitiesArePlannedAndAppliedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := manyEntities(t, 2000)
		most := time.Duration(n) * time.Millisecond
		w := newWorld(t, "")
		w.db.SetFaults(slow)
		m := parsed(t, many(n))
		var p Plan
		w.timed(t, "the plan of an empty table", most, func() { p = w.plan(t, m, Options{}) })
		require.Len(t, p.Changes, 3*n+1)
		w.timed(t, "its apply", 2*most, func() { w.all(t, p) })
		w.timed(t, "the second plan", most, func() { w.settled(t, m, Options{}) })
	})
}
