package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// configMarginMS is subtracted from the instant of a config read before it is stored. Two instants closer
// than that cannot be ordered.
const configMarginMS = 1000

// Config is the configuration of a bucket: the resolved limits in millitokens. It is never changed once
// built.
type Config struct {
	// Limits are in name order.
	Limits []schema.Limit
	// Origin says which sources the limits come from, and has the rare parts of a configuration. It may be nil
	// (see From), and configurations share it.
	Origin *Origin
	// Fingerprint identifies the limits and the ttl policy; 8 bytes.
	Fingerprint []byte
	// Permanent means that the bucket has no ttl.
	Permanent bool
	// Override means that one call brings the configuration (WithLimits). It then counts as newer than the
	// bucket's.
	Override bool
	// Group means that the bucket is of a group of resources: only records made for the group count.
	Group bool
	// Parent means that calls charge the bucket as a parent's, by the limits made for that parent
	// or for its plan. Uncharged has a bit for each other limit: the bucket has it, and such calls
	// do not charge it.
	Parent    bool
	Uncharged uint32
	// Quotas means that some limits are quotas, and Slots that some limit calls in flight.
	Quotas, Slots bool
	// Money has a bit for each limit that is money. It decides nothing. Shadow has a bit for each limit that
	// is counted and denies nothing.
	Money, Shadow uint32
	// ReadAt is the instant, in Unix ms of DynamoDB's clock, before the
	// configuration was read; Tick orders that read within the process.
	ReadAt, Tick int64
}

// Origin has the sources of the limits, the limits that are not in force, and the rare parts of a
// configuration. It is never changed once a configuration has it.
type Origin struct {
	// Counted has a bit for each limit that is in shadow because an unlimited source is counted. Outage
	// policies ignore such limits.
	Counted uint32
	// Phase says which raises the limits include and leave out. It is nil if no raise was in force at the
	// read.
	Phase *Phase
	// Alerts are the alerts of the limits, in the form of schema.AlertText.
	Alerts []string
	// Given means that the call gave the plan of the limits, or a plan that may decide them. Other callers
	// may give another plan for the same bucket: see Compare.
	Given bool
	// Source names the most specific source that the limits come from.
	Source string
	// Hidden are the limits of less specific sources that the source in force does not have.
	Hidden []Hidden
	// Lifted are the limits that a source takes away by name: a call may name them and pays nothing for them.
	Lifted []string
}

var noOrigin Origin

// From returns the configuration's origin; if it has none, a shared empty one, which must not be changed.
func (c *Config) From() *Origin {
	if c.Origin == nil {
		return &noOrigin
	}
	return c.Origin
}

// ChangeOrigin gives the configuration a copy of its origin, or of an empty one, that change has changed. Other
// configurations that share the origin keep it as it was.
func (c *Config) ChangeOrigin(change func(*Origin)) {
	own := *c.From()
	change(&own)
	c.Origin = &own
}

// Hidden is a limit that is not in force.
type Hidden struct {
	// Name is the limit's, and Source the source that has it.
	Name, Source string
}

// InShadow reports whether a limit is in shadow. It is false for an unknown limit, and for a nil configuration.
func (c *Config) InShadow(name string) bool {
	if c == nil || c.Shadow == 0 {
		return false
	}
	i := c.Index(name)
	return i >= 0 && c.Shadow>>i&1 == 1
}

// Enforced returns a copy of the amounts without those of limits in shadow, which deny nothing. It returns the
// list itself if c is nil or has no limit in shadow.
func (c *Config) Enforced(amounts []Signed) []Signed {
	if c == nil || c.Shadow == 0 {
		return amounts
	}
	return slices.DeleteFunc(slices.Clone(amounts), func(a Signed) bool { return c.InShadow(a.Name) })
}

// OnlyCounts reports whether every amount is of a limit that denies nothing because a source is unlimited. It
// is false if the configuration has no such limit; c must not be nil.
func (c *Config) OnlyCounts(amounts []Signed) bool {
	return c.From().Counted != 0 && !slices.ContainsFunc(amounts, func(a Signed) bool { return !c.onlyCounts(a.Name) })
}

// onlyCounts reports whether a limit denies nothing because a source is unlimited. It is false for a limit that
// is not configured.
func (c *Config) onlyCounts(name string) bool {
	i := c.Index(name)
	return i >= 0 && c.From().Counted>>i&1 == 1
}

// Charges reports whether the calls of this configuration charge a limit. It is false for a limit that is not
// configured, for one that calls of a child do not charge (see Uncharged), and for nil.
func (c *Config) Charges(name string) bool {
	i := c.Index(name)
	return i >= 0 && c.Uncharged>>i&1 == 0
}

// IsMoney reports whether the limit at index i of Limits is money. c must not be nil.
func (c *Config) IsMoney(i int) bool { return c.Money>>i&1 == 1 }

// UnitOf returns the unit of a limit: schema.USD for money, else empty. It is empty too for a limit that is not
// configured, and for nil.
func (c *Config) UnitOf(name string) string {
	if i := c.Index(name); i >= 0 && c.IsMoney(i) {
		return schema.USD
	}
	return ""
}

// OfGroup reports whether the bucket is of a group of resources. It is false for nil.
func (c *Config) OfGroup() bool { return c != nil && c.Group }

// Index returns the position of a limit in Limits; -1 if it is not configured or c is nil.
func (c *Config) Index(name string) int {
	if c == nil {
		return -1
	}
	for i := range c.Limits { // there are few, so this is faster than a binary search
		if c.Limits[i].Name == name {
			return i
		}
	}
	return -1
}

// Names returns the names of the limits, in order.
func (c *Config) Names() []string {
	names := make([]string, len(c.Limits))
	for i := range c.Limits {
		names[i] = c.Limits[i].Name
	}
	return names
}

// Wrote reports whether the fingerprint in an image is the configuration's, so that the bucket's last writer
// had the same limits. Neither may be nil.
func (c *Config) Wrote(m *schema.Image) bool {
	return string(m.Fingerprint) == string(c.Fingerprint)
}

// IsStored reports whether an image has the configuration's fingerprint, all its limits and their alerts, and a
// refill instant. It is false if either is nil.
func (c *Config) IsStored(m *schema.Image) bool {
	if c == nil || m == nil || !m.HasRefilled || !c.Wrote(m) {
		return false
	}
	for i := range c.Limits {
		if place := m.Set.Index(c.Limits[i].Name); place < 0 || m.Limits[place].Ghost {
			return false
		}
	}
	hasAlerts := c.Origin != nil && c.Origin.Alerts != nil || m.Extras != nil && m.Extras.Alerts != nil
	return !hasAlerts || !c.BringsAlerts(m)
}

// BringsAlerts reports whether the bucket has other alerts than the configuration, which was read later. It is
// false for limits or a plan given by the call. The fingerprint does not say so, because versions without
// alerts would compute another one.
func (c *Config) BringsAlerts(m *schema.Image) bool {
	if c.Override || c.From().Given || c.ReadAt <= m.ConfigRead+2*configMarginMS {
		return false
	}
	var has []string
	if m.Extras != nil {
		has = m.Extras.Alerts
	}
	return !slices.Equal(c.From().Alerts, has)
}

// RateOf returns the rate of a limit, in millitokens and ms. For a limit that is not configured, and for nil,
// it returns Unlimited, which refills at once.
func (c *Config) RateOf(name string) bucket.Rate {
	if i := c.Index(name); i >= 0 {
		return c.Limits[i].Rate
	}
	return Unlimited
}

// Unlimited is the rate of a bucket that has every amount at once.
var Unlimited = bucket.Rate{Burst: mostTokens, Amount: mostTokens, Period: 1}

// mostTokens is the largest amount of a limit, in millitokens.
const mostTokens = 1_000_000_000_000_000

// usualHoldMS is the hold of a limit that the configuration no longer has.
const usualHoldMS = 60_000

// holdOf returns the hold of a limit by the configuration, in ms; a minute without such a limit of calls in flight.
func (c *Config) holdOf(name string) int64 {
	if r := c.rateOf(name); r.IsSlots() {
		return r.Hold()
	}
	return usualHoldMS
}

// IsSlots reports whether a configured limit is one of calls in flight. It is false for nil.
func (c *Config) IsSlots(name string) bool {
	return c != nil && c.Slots && c.rateOf(name).IsSlots()
}

// NamesSlots reports whether some of the amounts are slots.
func (c *Config) NamesSlots(amounts []Signed) bool {
	return c != nil && c.Slots && slices.ContainsFunc(amounts, func(a Signed) bool { return c.IsSlots(a.Name) })
}

// SplitSlots separates amounts of slots from the others: those of a configured limit of calls in flight, and
// those in a window of slots. Without slots it returns nil and the list itself.
func (c *Config) SplitSlots(amounts []Signed) (slots, others []Signed) {
	return splitSlots(amounts, func(a Signed) bool { return a.Window.IsSlots() || c.IsSlots(a.Name) })
}

// SplitInFlight separates amounts in a window of slots from the others, whatever the kind of their limit is by now.
// Without such amounts the others are the list itself.
func SplitInFlight(amounts []Signed) (slots, others []Signed) {
	return splitSlots(amounts, func(a Signed) bool { return a.Window.IsSlots() })
}

// splitSlots separates the amounts for which is returns true from the others. Without such amounts it returns
// nil and the list itself.
func splitSlots(amounts []Signed, is func(Signed) bool) (slots, others []Signed) {
	if !slices.ContainsFunc(amounts, is) {
		return nil, amounts
	}
	for _, a := range amounts {
		if is(a) {
			slots = append(slots, a)
		} else {
			others = append(others, a)
		}
	}
	return slots, others
}

// rateOf returns the rate of a limit; a zero one if it is not configured.
func (c *Config) rateOf(name string) (r bucket.Rate) {
	if i := c.Index(name); i >= 0 {
		r = c.Limits[i].Rate
	}
	return r
}

// DecidedAt returns the instant by which to decide a take, in Unix ms: now, or sure's if a quota's window
// begins between them (see Unopened). sure returns an instant that has certainly passed. Without quotas in m
// and cfg it is not called; both may be nil.
func DecidedAt(m *schema.Image, cfg *Config, sure func() int64, now int64) int64 {
	if (m == nil || !m.Set.Quotas) && (cfg == nil || !cfg.Quotas) {
		return now
	}
	return Unopened(m, cfg, sure(), now)
}
