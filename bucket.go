// The lazy refill of buckets is in internal/bucket/bucket.go, which imports nothing. This file converts
// configurations and images of buckets for users.

package dynalimit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/levels"
)

// plainOrigins are the origins of lists that one level has, and that hide nothing: keys share them.
var plainOrigins = func() map[levels.Level]*plan.Origin {
	origins := map[levels.Level]*plan.Origin{}
	for _, level := range []levels.Level{
		levels.Override, levels.Entity, levels.EntityDefault, levels.Plan, levels.PlanDefault, levels.Resource, levels.System, levels.Options,
	} {
		origins[level] = &plan.Origin{Level: string(level)}
	}
	return origins
}()

// newBucketConfig converts resolved limits, which are sorted and have their defaults.
func newBucketConfig(limits []Limit, level levels.Level, permanent bool, readAt, tick int64) *plan.Config {
	c := &plan.Config{Origin: plainOrigins[level], Permanent: permanent, ReadAt: readAt, Tick: tick, Limits: make([]plan.Limit, len(limits))}
	for i, l := range limits {
		c.Limits[i] = toConfigured(l, level)
		if l.Unit != "" {
			c.Money |= 1 << i
		}
		if l.Shadow {
			c.Shadow |= 1 << i
		}
	}
	c.Fingerprint = []byte(fingerprintLimits(limits, permanent))
	return c
}

func toConfigured(l Limit, level levels.Level) plan.Limit {
	rate := bucket.Rate{Burst: l.Burst * milli, Amount: l.RefillAmount * milli, Period: l.RefillPeriod.Milliseconds()}
	if l.IsQuota() {
		windows, _ := calendar.WindowsOf(l.Window, l.Zone) // it was checked
		rate = bucket.Quota(l.Capacity*milli, windows)
	}
	return plan.Limit{Name: l.Name, Capacity: l.Capacity * milli, Level: string(level), Rate: rate, MaxDebt: l.MaxDebt * milli}
}

// overridden returns a configuration with the limits of a call: they are added, or
// replace those of the same name. None is removed.
func overridden(c *plan.Config, base, over []Limit, readAt, tick int64) *plan.Config {
	merged := slices.Clone(base)
	for _, l := range over {
		if i := slices.IndexFunc(merged, func(b Limit) bool { return b.Name == l.Name }); i >= 0 {
			merged[i] = l
		} else {
			merged = append(merged, l)
		}
	}
	slices.SortFunc(merged, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	out := newBucketConfig(merged, levels.Override, c.Permanent, readAt, tick)
	out.Override, out.Origin = true, cmp.Or(c.Origin, out.Origin)
	counted := uint32(0)
	for i := range out.Limits {
		l := &out.Limits[i]
		if !slices.ContainsFunc(over, func(o Limit) bool { return o.Name == l.Name }) {
			at := c.Index(l.Name)
			l.Level = c.Limits[at].Level
			out.Shadow, counted = out.Shadow|c.Shadow>>at&1<<i, counted|c.From().Counted>>at&1<<i
		}
	}
	if of := c.From(); counted != of.Counted || of.Phase != nil { // a raise ends in what is stored
		out.ChangeOrigin(func(o *plan.Origin) { o.Counted, o.Phase = counted, nil })
	}
	return out
}

// limitOf converts a stored limit to whole tokens.
func limitOf(name string, capacity int64, rate bucket.Rate) (l Limit) {
	if rate.IsQuota() {
		return quota(name, rate.Burst/milli, rate.Windows().Unit(), rate.Windows().Zone())
	}
	l.setBucket(name, capacity, &rate)
	return l
}

// setBucket makes a zero limit that of a token bucket.
func (l *Limit) setBucket(name string, capacity int64, rate *bucket.Rate) {
	l.Name, l.Capacity, l.Burst, l.RefillAmount = name, capacity/milli, rate.Burst/milli, rate.Amount/milli
	l.RefillPeriod = time.Duration(rate.Period) * time.Millisecond
}

// signedOf converts amounts from whole tokens to millitokens, in name order.
func signedOf(a Amounts) []plan.Signed {
	out := make([]plan.Signed, 0, len(a))
	for name, n := range a {
		out = append(out, plan.Signed{Name: name, Amount: n * milli})
	}
	slices.SortFunc(out, func(a, b plan.Signed) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// tokensOf converts amounts from millitokens to whole tokens.
func tokensOf(list []plan.Signed) Amounts { return plan.Tokens(list) }

// fingerprintLimits identifies a list of limits and its ttl policy in 8 bytes.
// It is the same in every process and for every order of the list, and differs
// when any parameter does.
func fingerprintLimits(limits []Limit, permanent bool) string {
	byName := func(a, b Limit) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(limits, byName) {
		limits = slices.SortedFunc(slices.Values(limits), byName)
	}
	buf := make([]byte, 0, 512)
	if permanent {
		buf = append(buf, 1)
	} else {
		buf = append(buf, 0)
	}
	for _, l := range limits {
		l = l.withDefaults()
		buf = binary.AppendUvarint(buf, uint64(len(l.Name))) // a length before each name: no two lists encode alike
		buf = append(buf, l.Name...)
		for _, n := range []int64{l.Capacity, l.Burst, l.RefillAmount, int64(l.RefillPeriod)} {
			buf = binary.BigEndian.AppendUint64(buf, uint64(n))
		}
		if l.IsQuota() { // it alone has no period
			text := calendar.Text(l.Window, l.Zone)
			buf = append(binary.AppendUvarint(buf, uint64(len(text))), text...)
		}
	}
	sum := sha256.Sum256(buf)
	return string(sum[:8])
}
