package aggregator_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// acrossHour does something just before a full hour, so that what it writes to some entities'
// buckets is written before the hour is full, and the rest just after it.
func (w *world) acrossHour(before []string, do func()) {
	full := w.clock().Truncate(time.Hour).Add(time.Hour)
	w.now.Store(full.Add(-time.Duration(1 + w.rnd.Int64N(int64(20*time.Second)))).UnixNano())
	after := full.Add(time.Duration(w.rnd.Int64N(int64(20 * time.Second)))).UnixNano()
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		to := func(entity string) bool { return strings.Contains(string(r.Body), `"ENTITY#`+entity+`"`) }
		if r.Operation != "UpdateItem" || slices.ContainsFunc(before, to) {
			return ddbmem.Fault{}
		}
		return ddbmem.Fault{Before: 20 * time.Millisecond}
	})
	strikes := time.AfterFunc(10*time.Millisecond, func() { w.now.Store(after) })
	do()
	strikes.Stop()
	w.db.SetFaults(nil)
	w.now.Store(after)
}

// some are some of several, at random.
func (w *world) some(of ...string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(string) bool { return w.rnd.IntN(2) == 0 })
}

// agency is a world of three levels, each with fewer limits than the one below it, of a parent
// that nothing limits, and of somebody alone. No limit is ever changed.
func agency(t *testing.T, seed uint64) *world {
	t.Helper()
	w := newWorld(t, seed)
	w.now.Store(time.Date(2026, 3, 30, 20, 10, 0, 0, time.UTC).UnixNano())
	require.NoError(t, w.repo.DeleteEntity(t.Context(), "key-0"))
	all := limits(2)
	for _, e := range []dynalimit.Entity{
		{ID: "org", Plan: "pro"},
		{ID: "team", ParentID: "org", Cascade: true, Plan: "pro"},
		{ID: "key-0", ParentID: "team", Cascade: true, Plan: "pro"},
		{ID: "key-1", ParentID: "team", Cascade: true, Plan: "pro"},
		{ID: "free", Plan: "pro"},
		{ID: "key-2", ParentID: "free", Cascade: true, Plan: "pro"},
		{ID: "alone", Plan: "pro"},
	} {
		require.NoError(t, w.repo.CreateEntity(t.Context(), e))
		n := map[string]int{"org": 1, "team": 2}[e.ID]
		if n == 0 {
			n = len(all)
		}
		require.NoError(t, w.repo.SetEntityLimits(t.Context(), e.ID, "gpt-4", all[:n]))
	}
	require.NoError(t, w.repo.SetUnlimited(t.Context(), dynalimit.Scope{Entity: "free", Resource: "gpt-4"}))
	return w
}

// highest are those whose consumption of a limit is that of everybody in an agency.
var highest = map[string][]string{
	"rpm": {"org", "key-2", "alone"}, "ttl": {"team", "key-2", "alone"}, "seq": {"key-0", "key-1", "key-2", "alone"},
}

// law is what the highest levels consumed of each limit, by hour.
func (w *world) law() map[string]int64 {
	sums := map[string]int64{}
	for at, n := range w.ledger {
		if slices.Contains(highest[at.limit], at.entity) && n != 0 {
			sums[at.hour+" "+at.limit] += n
		}
	}
	maps.DeleteFunc(sums, func(_ string, n int64) bool { return n == 0 })
	return sums
}

// TestCallsOfALimiterAcrossAFullHourCountOnce: whichever levels of an acquire, and of its
// settling, are written before a full hour, and whichever after it.
func TestCallsOfALimiterAcrossAFullHourCountOnce(t *testing.T) {
	levels := [][]string{nil, {"key-0"}, {"team"}, {"org"}, {"key-0", "team"}, {"key-0", "org"}, {"team", "org"}, {"key-0", "team", "org"}}
	if histories(t) <= 10 { // for the race detector
		levels = levels[3:5]
	}
	for _, before := range levels {
		t.Run(strings.Join(before, "+"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := agency(t, 1)
				c := newClerk(w)
				w.take("key-0", dynalimit.Amounts{"rpm": 3, "ttl": 2, "seq": 1}) // the limiter knows all levels
				w.now.Add(int64(3 * time.Hour))
				w.acrossHour(before, func() { w.take("key-0", dynalimit.Amounts{"rpm": 7, "ttl": 5, "seq": 4}) })
				hours := map[string]bool{}
				for at := range w.ledger {
					hours[at.hour] = true
				}
				if len(before)%3 == 0 {
					assert.Len(t, hours, 2, "all levels in one of them")
				} else {
					assert.Len(t, hours, 3, "levels in two of them")
				}
				c.bring()
				c.compare("open")
				w.now.Add(int64(time.Hour))
				c.compare("over")
				w.now.Add(int64(time.Hour))
				c.closeDue()
				c.compare("closed")
				w.now.Add(int64(50 * time.Hour))
				c.closeDue()
				c.compare("final")
			})
		})
	}
}

// take acquires, and settles with less than was asked for.
func (w *world) take(entity string, amounts dynalimit.Amounts) {
	w.t.Helper()
	lease, err := w.limiter.Acquire(w.t.Context(), entity, "gpt-4", amounts)
	require.NoError(w.t, err)
	require.NoError(w.t, lease.Settle(w.t.Context(), dynalimit.Amounts{"rpm": amounts["rpm"] / 2}))
}

// clerk brings records, closes hours and reads them.
type clerk struct {
	*world
	p      *aggregator.Processor
	closer *aggregator.Closer
	reader *aggregator.Reader
	began  time.Time
}

func newClerk(w *world) *clerk {
	c := &clerk{world: w, began: w.clock()}
	var err error
	c.p, err = aggregator.New(w.db.Client(), "limits", nil)
	require.NoError(w.t, err)
	c.closer, err = aggregator.NewCloser(w.db.Client(), "limits", &aggregator.CloserOptions{Now: w.clock})
	require.NoError(w.t, err)
	c.reader, err = aggregator.NewReader(w.db.Client(), "limits", &aggregator.ReaderOptions{Now: w.clock})
	require.NoError(w.t, err)
	return c
}

func (c *clerk) bring() {
	c.stream.read()
	c.deliver(c.p)
}

func (c *clerk) closeDue() {
	_, err := c.closer.CloseDue(c.t.Context())
	require.NoError(c.t, err)
}

// compare requires that the hours, and the days, are what the highest levels consumed: of the
// resource, and of the plan that all are on.
func (c *clerk) compare(when string) {
	c.t.Helper()
	law := c.law()
	days := map[string]int64{}
	for at, n := range law {
		days[at[:len("2026-03-29")]+at[len("2026-03-29T12:00:00Z"):]] += n
	}
	for window, want := range map[aggregator.Window]map[string]int64{aggregator.Hour: law, aggregator.Day: days} {
		q := aggregator.Query{From: c.began, To: c.clock().Add(time.Second), Window: window}
		label := time.RFC3339
		if window == aggregator.Day {
			label = time.DateOnly
		}
		for of, list := range map[string][]aggregator.Usage{
			"resource": all(c.t, c.reader.Resource(c.t.Context(), "gpt-4", q)), "plan": all(c.t, c.reader.Plan(c.t.Context(), "pro", q)),
		} {
			got := map[string]int64{}
			for _, u := range list {
				for _, l := range u.Limits {
					if l.Consumed != 0 {
						got[u.Start.UTC().Format(label)+" "+l.Limit] += l.Consumed
					}
				}
			}
			require.Equal(c.t, want, got, "%s by %s, %s at %s", of, window, when, c.clock())
		}
	}
}

// TestLevelsOfACascadeCountOnce: whatever is called when, with levels on both sides of full
// hours, every hour's totals are what the highest level consumed in it that has the limit, to
// the millitoken; whether they are read, closed or final.
func TestLevelsOfACascadeCountOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(max(2, histories(t)/20)) {
		synctest.Test(t, func(t *testing.T) {
			c := newClerk(agency(t, seed))
			for range 40 {
				c.step()
			}
			require.NoError(t, c.limiter.Close(t.Context()))
			c.bring()
			c.compare("open")
			for last := c.clock().Add(51 * time.Hour); c.clock().Before(last) || c.clock().Day() > 20 || c.clock().Day() < 3; c.now.Add(int64(9 * time.Hour)) {
				c.closeDue()
			}
			c.compare("final")
			c.requireMonth(seed)
		})
	}
}

// step does something that services do.
func (c *clerk) step() {
	entity := []string{"key-0", "key-0", "key-1", "key-2", "team", "alone"}[c.rnd.IntN(6)]
	call := func() {
		switch amounts := (dynalimit.Amounts{"rpm": 1 + c.rnd.Int64N(9)}); {
		case len(c.leases) > 0 && c.rnd.IntN(3) == 0:
			lease := c.leases[0]
			c.leases = c.leases[1:]
			require.NoError(c.t, lease.Settle(c.t.Context(), dynalimit.Amounts{"rpm": c.rnd.Int64N(12)}))
		default:
			if c.rnd.IntN(2) == 0 {
				amounts["ttl"] = 1 + c.rnd.Int64N(9)
			}
			if entity != "team" && c.rnd.IntN(3) == 0 {
				amounts["seq"] = 1 + c.rnd.Int64N(9)
			}
			lease, err := c.limiter.Acquire(c.t.Context(), entity, "gpt-4", amounts)
			require.NoError(c.t, err)
			c.leases = append(c.leases, lease)
		}
	}
	switch n := c.rnd.IntN(12); {
	case n < 5:
		c.acrossHour(c.some("key-0", "key-1", "key-2", "team", "org", "alone"), call)
	case n < 8:
		call()
	case n < 10:
		c.now.Add(c.rnd.Int64N(int64(50 * time.Minute)))
	default:
		c.bring()
		c.closeDue()
		c.compare("in between")
	}
}

// requireMonth requires that the month that is over is what the highest levels consumed.
func (c *clerk) requireMonth(seed uint64) {
	want := map[string]int64{}
	for at, n := range c.law() {
		if month := at[:len("2026-03")]; month == "2026-03" {
			want[month+at[len("2026-03-29T12:00:00Z"):]] += n
		}
	}
	got := map[string]int64{}
	for _, item := range summed(c.t, c.db) {
		month, is := strings.CutPrefix(text(item, "SK"), "#USAGE_MONTH#gpt-4#")
		if !is || text(item, "PK") != "RESOURCE#gpt-4" {
			continue
		}
		assert.True(c.t, item["final"].(*types.AttributeValueMemberBOOL).Value)
		for attr, v := range item {
			if name, field, ok := cut(attr); ok && field == "n" && number(c.t, v) != 0 {
				got[month+" "+name] += number(c.t, v)
			}
		}
	}
	require.Equal(c.t, want, got, "seed %d", seed)
}
