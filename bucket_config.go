package dynalimit

import (
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// bucketConfig is what the configuration wants a bucket to be: the resolved
// limits in millitokens. It is never changed.
type bucketConfig struct {
	limits      []configured // in name order
	fingerprint []byte
	// permanent says that the bucket has no ttl.
	permanent bool
	// override says that WithLimits made it: it is newer than whatever the
	// bucket holds.
	override bool
	// readAt is the corrected instant before the configuration was read, in
	// ms; tick orders that read within the process.
	readAt, tick int64
}

// configured is one limit in millitokens and milliseconds.
type configured struct {
	name     string
	capacity int64
	rate     bucket.Rate
	level    ConfigLevel
}

func (c *bucketConfig) index(name string) int {
	if c == nil {
		return -1
	}
	i, ok := slices.BinarySearchFunc(c.limits, name, func(l configured, name string) int { return strings.Compare(l.name, name) })
	if !ok {
		return -1
	}
	return i
}

// names are the names of the limits, in order.
func (c *bucketConfig) names() []string {
	names := make([]string, len(c.limits))
	for i := range c.limits {
		names[i] = c.limits[i].name
	}
	return names
}

// newBucketConfig converts resolved limits, which are sorted and have defaults.
func newBucketConfig(limits []Limit, level ConfigLevel, permanent bool, readAt, tick int64) *bucketConfig {
	c := &bucketConfig{permanent: permanent, readAt: readAt, tick: tick, limits: make([]configured, len(limits))}
	for i, l := range limits {
		c.limits[i] = toConfigured(l, level)
	}
	c.fingerprint = []byte(fingerprintLimits(limits, permanent))
	return c
}

func toConfigured(l Limit, level ConfigLevel) configured {
	return configured{name: l.Name, capacity: l.Capacity * milli, level: level, rate: bucket.Rate{
		Burst: l.Burst * milli, Amount: l.RefillAmount * milli, Period: l.RefillPeriod.Milliseconds(),
	}}
}

// overridden returns the configuration with the limits of a call added or put
// in the place of those with the same name; nothing is removed.
func (c *bucketConfig) overridden(base []Limit, over []Limit, readAt, tick int64) *bucketConfig {
	merged := slices.Clone(base)
	for _, l := range over {
		if i := slices.IndexFunc(merged, func(b Limit) bool { return b.Name == l.Name }); i >= 0 {
			merged[i] = l
		} else {
			merged = append(merged, l)
		}
	}
	slices.SortFunc(merged, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	out := newBucketConfig(merged, LevelOverride, c.permanent, readAt, tick)
	out.override = true
	for i := range out.limits {
		l := &out.limits[i]
		if !slices.ContainsFunc(over, func(o Limit) bool { return o.Name == l.name }) {
			l.level = c.limits[c.index(l.name)].level
		}
	}
	return out
}

// limitOf shows a stored limit in whole tokens.
func limitOf(name string, capacity int64, rate bucket.Rate) Limit {
	return Limit{
		Name: name, Capacity: capacity / milli, Burst: rate.Burst / milli, RefillAmount: rate.Amount / milli,
		RefillPeriod: time.Duration(rate.Period) * time.Millisecond,
	}
}
