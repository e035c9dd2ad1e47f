package tests

import (
	"errors"
	"fmt"
	"maps"
	"strings"
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
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Of 200 racing calls of four processes, exactly as many are admitted as the quota of the key, of
// its team, or of all models allows.
func TestRacersOnAQuota(t *testing.T) {
	for name, at := range map[string]admin.Scope{
		"key": {Entity: "key", Resource: model}, "team": {Entity: "team", Resource: model}, "all models": {Entity: "team", Resource: group},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.family("key", "team")
				s.ofGroup(model)
				s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 1_000_000, pacific))
				s.limits(at, dynalimit.Daily("usd", 100, pacific))
				assert.EqualValues(t, 100, s.race("key", dynalimit.Amounts{"usd": 1}, model))
			})
		})
	}
}

// windowsUsed sums what is charged to a quota in each stored window, by the writes of its bucket.
type windowsUsed struct {
	mu   sync.Mutex
	used map[int64]int64
	at   map[int64]time.Time // the first charge of a window
}

func (u *windowsUsed) wrote(w ddbmem.Write) {
	if w.New == nil || !strings.HasPrefix(schema.KeyOf(w.New).SK, "#BUCKET#") {
		return
	}
	sets := schema.NewLimitSets()
	before, _ := sets.DecodeBucket(w.Old, nil, 0)
	after, err := sets.DecodeBucket(w.New, nil, 0)
	i := after.Set.Index("usd")
	if err != nil || i < 0 {
		return
	}
	consumed := after.Limits[i].Consumed
	if before != nil && before.Set.Index("usd") >= 0 {
		consumed -= before.Limits[before.Set.Index("usd")].Consumed
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	window := int64(after.Limits[i].Window)
	if _, known := u.at[window]; !known {
		u.at[window] = w.Time
	}
	u.used[window] += consumed / milli
}

// Over midnight in three zones, and where their clocks change, processes whose clocks are up to
// 5 s wrong use each day's quota up, and no more.
func TestEachWindowIsExactWhateverTheClocks(t *testing.T) {
	for _, test := range []struct{ zone, midnight string }{
		{pacific, "2000-01-15T08:00:00Z"},
		{pacific, "2000-04-02T08:00:00Z"},
		{pacific, "2000-04-03T07:00:00Z"}, // a day of 23 hours
		{pacific, "2000-10-29T07:00:00Z"},
		{pacific, "2000-10-30T08:00:00Z"}, // of 25
		{"Europe/Berlin", "2000-01-15T23:00:00Z"},
		{"Europe/Berlin", "2000-03-25T23:00:00Z"},
		{"Europe/Berlin", "2000-10-29T23:00:00Z"},
		{"America/Santiago", "2000-10-15T04:00:00Z"},
		{"America/Santiago", "2000-03-12T04:00:00Z"}, // no midnight, and two
	} {
		t.Run(test.zone+" "+test.midnight, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				midnight, err := time.Parse(time.RFC3339, test.midnight)
				require.NoError(t, err)
				e := memEngine(t)
				s := liveProcess(t, e, nil)
				used := &windowsUsed{used: map[int64]int64{}, at: map[int64]time.Time{}}
				e.db.OnWrite(used.wrote)
				e.db.SetFaults(after10ms)
				s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, test.zone))
				elapse(time.Until(midnight.Add(-20 * time.Second)))
				var calls sync.WaitGroup
				for _, skew := range []time.Duration{0, -5 * time.Second, 5 * time.Second, 300 * time.Millisecond} {
					p := s.on(e.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: func() time.Time { return time.Now().Add(skew) }}), nil)
					for range 5 {
						calls.Go(func() {
							for range 200 {
								elapse(200 * time.Millisecond)
								if _, err := p.limiter.Acquire(t.Context(), "key", model, dynalimit.Amounts{"usd": 1}); err != nil && !errors.Is(err, dynalimit.ErrLimitExceeded) {
									t.Error(err)
								}
							}
						})
					}
				}
				calls.Wait()
				require.Len(t, used.used, 2, "the day before and the day")
				for window, n := range used.used {
					assert.EqualValues(t, 100, n, "in window %d", window)
					if used.at[window].After(midnight.Add(-15 * time.Second)) {
						assert.WithinDuration(t, midnight, used.at[window], 5500*time.Millisecond)
					}
				}
			})
		})
	}
}

// A clock that DynamoDB's answers correct opens no window before it has surely begun.
func TestNoWindowIsOpenedByAClockThatIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.limits(admin.Scope{Everyone: true}, dynalimit.Daily("usd", 100, "UTC"))
		yes := true
		p := s.on(s.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: func() time.Time { return time.Now().Add(900 * time.Millisecond) }, CorrectClock: &yes}), nil)
		elapse(time.Until(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC).Add(-time.Minute)))
		p.acquire("key", dynalimit.Amounts{"usd": 100})
		elapse(time.Minute - 500*time.Millisecond) // it is past midnight by its own clock
		exceeded := p.deny("key", dynalimit.Amounts{"usd": 1})
		elapse(exceeded.RetryAfter)
		assert.False(t, time.Now().Before(time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)))
		p.acquire("key", dynalimit.Amounts{"usd": 100})
	})
}

// Four processes with a hundred callers, while a daily quota is added, lowered, raised, moved to a
// plan and to the parent, and to a group: from a TTL after each change on, no more is used of the
// day than what is in force allows, with latencies, throttling and lost answers.
func TestQuotaChangesInTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 2 * time.Minute // a configuration that is stale may serve for a second one
		s := liveProcess(t, memEngine(t), nil)
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "team"}))
		require.NoError(t, s.repo.CreateEntity(t.Context(), admin.Entity{ID: "key", ParentID: "team", Cascade: true, Plan: "pro"}))
		s.limits(admin.Scope{Everyone: true}, dynalimit.PerSecond("rpm", 1000))
		s.ofGroup(model)
		elapse(time.Hour) // what is in force is that of one day
		admitted, stop := s.inTraffic("usd", 10, 4, dynalimit.Amounts{"rpm": 1}, model)
		defer stop()
		daily := func(n int64) []dynalimit.Limit {
			return []dynalimit.Limit{dynalimit.PerSecond("rpm", 1000), dynalimit.Daily("usd", n, pacific)}
		}
		of := map[string]admin.Scope{
			"everyone": {Everyone: true}, "plan": {Plan: "pro", Resource: model}, "team": {Entity: "team", Resource: model}, "group": {Entity: "team", Resource: group},
		}
		rpm := dynalimit.PerSecond("rpm", 1000)
		for i, phase := range []struct {
			what       string
			change     func()
			entity, on string
			most       int64 // of the day
		}{
			{"added", func() { s.limits(of["everyone"], daily(3000)...) }, "key", model, 3000},
			{"lowered", func() { s.limits(of["everyone"], daily(1000)...) }, "key", model, 1000},
			{"raised", func() { s.limits(of["everyone"], daily(4000)...) }, "key", model, 4000},
			{"moved to a plan", func() { s.limits(of["plan"], daily(5000)...); s.limits(of["everyone"], rpm) }, "key", model, 5000},
			{"moved to the parent", func() { s.limits(of["team"], daily(2000)...); s.limits(of["plan"], rpm) }, "team", model, 2000},
			{"moved to a group", func() { s.limits(of["group"], dynalimit.Daily("usd", 1500, pacific)); s.limits(of["team"], rpm) }, "team", group, 1500},
		} {
			phase.change()
			elapse(ttl)
			before := admitted.Load()
			elapse(6 * time.Minute)
			stored := s.storedOn(phase.entity, phase.on, "usd")
			got := admitted.Load() - before
			t.Logf("%d %s: %d used of the day, %d of %d left, %d more admitted", i, phase.what, stored.Consumed/milli, stored.Tokens/milli, phase.most, got)
			assert.Equal(t, phase.most*milli, stored.Burst, phase.what)
			if before := stored.Consumed/milli - got; before > phase.most {
				assert.LessOrEqual(t, got, int64(100), fmt.Sprintf("%s: %d were used before, and more is given back than taken", phase.what, before))
				continue
			}
			assert.LessOrEqual(t, stored.Consumed/milli, phase.most, phase.what)
			assert.Greater(t, stored.Consumed/milli, phase.most-100, phase.what)
		}
	})
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
