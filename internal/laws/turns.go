package laws

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit"
)

// quotas decide which limit of a history is sometimes a calendar quota, and of which kind.
type quotas struct {
	name  string
	zones [2]string
	// until is the instant, in Unix ms, at which the workers meet again, just before a window begins.
	until atomic.Int64
}

// newQuotas draws the quotas of a history, nil for a third of the seeds, and sleeps until shortly before a
// window begins. It has its own random source, so that other draws stay the same.
func newQuotas(seed uint64) *quotas {
	r := rand.New(rand.NewPCG(seed, 7))
	if r.IntN(3) == 0 {
		return nil
	}
	zones := []string{"UTC", "Asia/Kathmandu", "America/Los_Angeles", "Pacific/Auckland"}
	r.Shuffle(len(zones), func(i, k int) { zones[i], zones[k] = zones[k], zones[i] })
	q := &quotas{name: limitNames[r.IntN(len(limitNames))], zones: [2]string(zones)}
	Elapse(q.untilNextWindow(r, 10*time.Minute))
	return q
}

// isQuotaNext draws whether the next parameters of the named limit are a quota's. It is false for nil and for
// another name, else true in three of four cases.
func (q *quotas) isQuotaNext(r *rand.Rand, name string) bool {
	return q != nil && q.name == name && r.IntN(4) > 0
}

// randomQuota draws a quota of n whole tokens with a random window and zone.
func (q *quotas) randomQuota(r *rand.Rand, name string, n int64) dynalimit.Limit {
	l := dynalimit.Limit{Name: name, Capacity: n, Burst: n, RefillAmount: n, Window: []string{"hour", "hour", "hour", "day", "day", "week"}[r.IntN(6)]}
	if l.Zone = "UTC"; l.Window != "hour" {
		l.Zone = q.zones[r.IntN(2)]
	}
	return l
}

// untilNextWindow returns the time until a random instant, at most `most` before the next hour, or the next day
// in one of q's zones, begins.
func (q *quotas) untilNextWindow(r *rand.Rand, most time.Duration) time.Duration {
	now := time.Now()
	next := now.Truncate(time.Hour).Add(time.Hour)
	if r.IntN(2) == 0 {
		zone, err := time.LoadLocation(q.zones[r.IntN(2)])
		if err != nil {
			panic(err)
		}
		y, m, d := now.In(zone).Date()
		next = time.Date(y, m, d+1, 0, 0, 0, 0, zone)
	}
	return next.Sub(now) - time.Duration(r.Int64N(int64(most)))
}

// isChangeDue draws whether this step changes the quota: in one of 25 steps. It is false in histories without
// quotas.
func (q *quotas) isChangeDue(r *rand.Rand) bool { return q != nil && r.IntN(25) == 0 }

// meetAtWindow waits until the agreed instant before the next window, so that workers cross the window's start
// together. In one of 20 calls it then agrees on a new instant and returns true. For nil, a history without
// quotas, it returns false at once.
func (q *quotas) meetAtWindow(r *rand.Rand) bool {
	if q == nil {
		return false
	}
	now := time.Now().UnixMilli()
	if until := q.until.Load(); until > now {
		Elapse(time.Duration(until-now) * time.Millisecond)
	}
	if r.IntN(20) > 0 {
		return false
	}
	q.until.Store(time.Now().UnixMilli() + q.untilNextWindow(r, 8*time.Second).Milliseconds())
	return true
}

// isQuotaKey reports whether a key "bucket#limit" names the limit that is sometimes a quota.
func (q *quotas) isQuotaKey(key string) bool { return q != nil && strings.HasSuffix(key, "#"+q.name) }
