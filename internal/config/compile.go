package config

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
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// milli is the number of millitokens in a token.
const milli = 1000

// plainOrigins are the shared origins of lists that come from one source and hide nothing.
var plainOrigins = func() map[sources.Source]*plan.Origin {
	origins := map[sources.Source]*plan.Origin{}
	for _, source := range []sources.Source{
		sources.Override, sources.Entity, sources.EntityDefault, sources.Plan, sources.PlanDefault, sources.Resource, sources.System, sources.Options,
	} {
		origins[source] = &plan.Origin{Source: string(source)}
	}
	return origins
}()

// Compile makes the configuration of a bucket, in millitokens, with its fingerprint, from limits that
// schema.CheckLimits returned. They come from source, read at readAt in Unix ms; tick orders that read within
// the process. A permanent bucket has no ttl.
func Compile(limits []schema.ConfigLimit, source sources.Source, permanent bool, readAt, tick int64) *plan.Config {
	c := &plan.Config{Origin: plainOrigins[source], Permanent: permanent, ReadAt: readAt, Tick: tick, Limits: make([]schema.Limit, len(limits))}
	for i, l := range limits {
		c.Limits[i] = bucketLimit(l, source)
		c.Quotas = c.Quotas || l.IsQuota()
		c.Slots = c.Slots || l.IsSlots()
		c.Money |= maskOf(l.Unit != "", i)
		c.Shadow |= maskOf(l.Shadow, i)
	}
	c.Fingerprint = fingerprint(c.Limits, permanent)
	if alerts := schema.AlertText(limits); alerts != nil {
		c.ChangeOrigin(func(o *plan.Origin) { o.Alerts = alerts })
	}
	return c
}

// maskOf returns a mask with the i-th bit set if set is true, else 0. A configuration keeps such masks, one bit
// for each limit.
func maskOf(set bool, i int) uint32 {
	if set {
		return 1 << i
	}
	return 0
}

// bucketLimit converts a source's limit, in whole tokens, to a token bucket, a quota or slots of a bucket, in
// millitokens and ms. It leaves out shadow, unit and alerts.
func bucketLimit(l schema.ConfigLimit, source sources.Source) schema.Limit {
	rate := bucket.Rate{Burst: l.Burst * milli, Amount: l.RefillAmount * milli, Period: l.RefillPeriod.Milliseconds()}
	if l.IsQuota() {
		windows, _ := calendar.WindowsOf(l.Window, l.Zone) // it was checked
		rate = bucket.Quota(l.Capacity*milli, windows)
	}
	if l.IsSlots() {
		rate = bucket.Slots(l.Capacity*milli, l.Hold.Milliseconds())
	}
	return schema.Limit{Name: l.Name, Capacity: l.Capacity * milli, Source: string(source), Rate: rate, MaxDebt: l.MaxDebt * milli, Reserve: l.Reserve * milli, Longest: l.Longest.Milliseconds()}
}

// Override returns a new configuration: that of c with the limits of a call (WithLimits), which replace limits
// of the same name. No limit is removed, and c stays. A raise in c does not end in the result.
func Override(c *plan.Config, over []schema.ConfigLimit, readAt, tick int64) *plan.Config {
	own := Compile(over, sources.Override, c.Permanent, readAt, tick)
	out := *own
	out.Override, out.Origin, out.Limits, out.Quotas = true, cmp.Or(c.Origin, own.Origin), slices.Clone(own.Limits), own.Quotas || c.Quotas
	out.Slots = own.Slots || c.Slots
	for _, l := range c.Limits {
		if own.Index(l.Name) < 0 {
			out.Limits = append(out.Limits, l)
		}
	}
	slices.SortFunc(out.Limits, func(a, b schema.Limit) int { return strings.Compare(a.Name, b.Name) })
	out.Money, out.Shadow = 0, 0
	counted := uint32(0)
	for i := range out.Limits {
		from, at := own, own.Index(out.Limits[i].Name)
		if at < 0 {
			from, at = c, c.Index(out.Limits[i].Name)
			counted |= c.From().Counted >> at & 1 << i
		}
		out.Money, out.Shadow = out.Money|from.Money>>at&1<<i, out.Shadow|from.Shadow>>at&1<<i
	}
	out.Fingerprint = fingerprint(out.Limits, c.Permanent)
	if of := c.From(); counted != of.Counted || of.Phase != nil { // a raise ends by the stored configuration only
		out.ChangeOrigin(func(o *plan.Origin) { o.Counted, o.Phase = counted, nil })
	}
	if alerts := mergeAlerts(c, own); alerts != nil {
		out.ChangeOrigin(func(o *plan.Origin) { o.Alerts = alerts })
	}
	return &out
}

// mergeAlerts returns the alerts, sorted and in the form of schema.AlertText, of a configuration's limits.
// Those of a call's limits replace alerts of the same limit.
func mergeAlerts(c, over *plan.Config) (alerts []string) {
	for _, text := range c.From().Alerts {
		if over.Index(schema.AlertLimit(text)) < 0 {
			alerts = append(alerts, text)
		}
	}
	return slices.Sorted(slices.Values(append(alerts, over.From().Alerts...)))
}

// inFlight marks a limit of calls in flight in a fingerprint.
const inFlight = "calls in flight"

// fingerprint returns 8 bytes that identify limits, sorted by name, and whether the bucket is permanent. It is
// the same in every process. It changes with each parameter of a limit except its source, deepest debt,
// reserve, longest time, unit and shadow.
func fingerprint(limits []schema.Limit, permanent bool) []byte {
	buf := make([]byte, 1, 512)
	if permanent {
		buf[0] = 1
	}
	for i := range limits {
		l := &limits[i]
		buf = binary.AppendUvarint(buf, uint64(len(l.Name))) // a length before each name: no two lists encode alike
		buf = append(buf, l.Name...)
		period := int64(0) // quotas and slots have none
		if !l.Rate.IsQuota() {
			period = l.Rate.Period * int64(time.Millisecond)
		}
		for _, n := range []int64{l.Capacity / milli, l.Rate.Burst / milli, l.Rate.Amount / milli, period} {
			buf = binary.BigEndian.AppendUint64(buf, uint64(n))
		}
		if l.Rate.IsSlots() {
			buf = append(binary.AppendUvarint(buf, uint64(len(inFlight))), inFlight...)
		}
		if l.Rate.IsQuota() {
			text := l.Rate.Windows().String()
			buf = append(binary.AppendUvarint(buf, uint64(len(text))), text...)
		}
	}
	sum := sha256.Sum256(buf)
	return sum[:8:8]
}
