package tests

import (
	"errors"
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
