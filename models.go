package dynalimit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Limit is the configuration of one token bucket: the bucket holds at most Burst tokens and regains
// RefillAmount of them every RefillPeriod. Or it is a calendar quota: Capacity in each Window of a calendar,
// full again where the next one begins and not before. Or, with a Hold, it limits calls in flight: Capacity
// leases at once. All counts are whole tokens. Limit is a plain value; PerSecond, PerMinute, PerHour and
// PerDay make the usual buckets, and WithBurst changes the burst; DailyQuota, WeeklyQuota and MonthlyQuota
// make quotas; Concurrent limits calls in flight. The zero value is not valid: a limit needs at least Name,
// Capacity, and RefillPeriod, Window or Hold.
type Limit struct {
	// Name identifies the limit in Amounts, for example "rpm" or "tpm".
	// Letters, digits, '-', '.' and '_', starting with a letter, at most 64.
	Name string
	// Capacity is the nominal allowance per RefillPeriod, or in each Window.
	Capacity int64
	// Burst is the most the bucket holds. Defaults to Capacity.
	Burst int64
	// RefillAmount is the number of tokens that the bucket regains per RefillPeriod. Defaults to
	// Capacity.
	RefillAmount int64
	// RefillPeriod is the time RefillAmount takes, in whole milliseconds;
	// stored configuration holds whole seconds.
	RefillPeriod time.Duration
	// Window is "hour", "day", "week" (ISO 8601, from Monday) or "month" for a calendar quota, and
	// empty for a token bucket. Burst and RefillAmount of a quota are its Capacity, and it has no
	// RefillPeriod.
	Window string
	// Zone is the IANA name of the time zone of a quota's windows, such as
	// "America/Los_Angeles". Defaults to "UTC". Hours are always those of UTC.
	Zone string
	// Unit is USD for money: a token is then a millionth of a dollar. Only quotas have a unit. Calls
	// that request money are blocked when DynamoDB does not answer. Options.OnUnavailable does not
	// apply to them, but a policy of the call or of a source does.
	Unit string
	// PerModel means that each model has the quota by itself. Without it, money is refused on a default
	// and on a model without a group: $50 a day on each of six models would be $300. Set money on a
	// group of models instead (admin.LimitConfig.Groups).
	PerModel bool
	// Shadow means that the limit counts and denies nothing, to see its effect before it is enforced.
	// The part of an amount that fits is charged, the rest is only counted (LimitStatus.WouldDeny).
	Shadow bool
	// MaxDebt is the deepest debt, in whole tokens, into which Adjust and Settle may take the limit; 0
	// for any debt. Charges beyond it are counted only (LimitStatus.Uncharged).
	MaxDebt int64
	// Reserve is the number of tokens that batch calls (WithBatch) leave to interactive calls: at most half of
	// Burst. 0 means a fifth of Burst, rounded down, and -1 no reserve.
	Reserve int64
	// Hold makes the limit one of calls in flight, from 30 s to a day in whole seconds: at most Capacity
	// leases at once. The slots of a process that died are free after at most Hold + Hold/4.
	Hold time.Duration
	// Longest is the longest time for which a lease keeps its slots, in whole seconds. Defaults to an hour, or
	// to a longer Hold.
	Longest time.Duration
	// AlertAt are the percentages of a quota, 1 to 100, at which its use is told to people (package
	// aggregator/alert), at most 8. 100 means that a call was denied because the quota is nearly used up. They do not
	// change what the limit admits.
	AlertAt Percentages
}

// Percentages are at most 8 percentages from 1 to 100. Its List method returns them in ascending order. The zero value
// is the empty set; Limit.WithAlerts makes others. It is a number, not a list or an array, so that limits are compared
// by == and errors that hold one can be encoded in ASN.1.
type Percentages = schema.Percentages

// USD is the unit of money: micro-dollars.
const USD = "usd"

// PerSecond returns a token bucket of n tokens a second, with a burst of n.
func PerSecond(name string, n int64) Limit { return newBucket(name, n, time.Second) }

// PerMinute returns a token bucket of n tokens a minute, with a burst of n.
func PerMinute(name string, n int64) Limit { return newBucket(name, n, time.Minute) }

// PerHour returns a token bucket of n tokens an hour, with a burst of n.
func PerHour(name string, n int64) Limit { return newBucket(name, n, time.Hour) }

// PerDay returns a token bucket of n tokens per 24 hours, with a burst of n.
func PerDay(name string, n int64) Limit { return newBucket(name, n, 24*time.Hour) }

// newBucket returns a token bucket of n tokens a period, with a burst of n.
func newBucket(name string, n int64, period time.Duration) Limit {
	return Limit{Name: name, Capacity: n, Burst: n, RefillAmount: n, RefillPeriod: period}
}

// DailyQuota returns a quota of n tokens on each day of the calendar in an IANA time zone; "" is UTC. It is
// full again at midnight there and regains nothing before.
func DailyQuota(name string, n int64, zone string) Limit {
	return newQuota(name, n, calendar.Day, zone)
}

// WeeklyQuota returns a quota of n tokens in each week, from Monday on, in an IANA time zone; "" is UTC.
func WeeklyQuota(name string, n int64, zone string) Limit {
	return newQuota(name, n, calendar.Week, zone)
}

// MonthlyQuota returns a quota of n tokens in each month of the calendar in an IANA time zone; "" is UTC.
func MonthlyQuota(name string, n int64, zone string) Limit {
	return newQuota(name, n, calendar.Month, zone)
}

// DailyMoneyQuota returns a quota of micro-dollars, at most 10^12, on each day of the calendar in an IANA time
// zone; "" is UTC. Dollars converts an amount.
func DailyMoneyQuota(name string, micros int64, zone string) Limit {
	return inDollars(DailyQuota(name, micros, zone))
}

// WeeklyMoneyQuota returns a quota of micro-dollars, at most 10^12, in each week, from Monday on, in an IANA
// time zone; "" is UTC.
func WeeklyMoneyQuota(name string, micros int64, zone string) Limit {
	return inDollars(WeeklyQuota(name, micros, zone))
}

// MonthlyMoneyQuota returns a quota of micro-dollars, at most 10^12, in each month of the calendar in an IANA
// time zone; "" is UTC.
func MonthlyMoneyQuota(name string, micros int64, zone string) Limit {
	return inDollars(MonthlyQuota(name, micros, zone))
}

// Concurrent returns a limit of calls in flight: at most n leases hold a slot at once, over all processes.
// Slots of a process that died are free after at most hold + hold/4. 0 means a minute, the least is 30 s.
// A call may last longer: its slot is renewed.
func Concurrent(name string, n int64, hold time.Duration) Limit {
	return Limit{Name: name, Capacity: n, Hold: cmp.Or(hold, time.Minute)}.withDefaults()
}

// WithLongest returns the limit with the longest time for which a lease keeps its slots. 0 means an hour.
func (l Limit) WithLongest(d time.Duration) Limit {
	l.Longest = cmp.Or(d, time.Hour)
	return l
}

// IsConcurrent reports whether the limit is one of calls in flight and not a token bucket.
func (l Limit) IsConcurrent() bool { return l.Hold != 0 }

// Dollars converts dollars to micro-dollars, the unit of limits on money, rounded to the nearest one:
// Dollars(5) is 5,000,000. An amount outside of ±10^12 dollars becomes that bound, and NaN becomes 0.
func Dollars(amount float64) int64 {
	const most = 1e12
	if math.IsNaN(amount) {
		return 0
	}
	return int64(math.Round(min(max(amount, -most), most) * 1e6))
}

// inDollars returns the limit with the unit USD, micro-dollars.
func inDollars(l Limit) Limit {
	l.Unit = USD
	return l
}

// newQuota returns a quota of n tokens in each window of the calendar of an IANA time zone; "" is UTC.
func newQuota(name string, n int64, unit calendar.Unit, zone string) Limit {
	return Limit{Name: name, Capacity: n, Window: unit.String(), Zone: zone}.withDefaults()
}

// IsQuota reports whether the limit is a calendar quota and not a token bucket.
func (l Limit) IsQuota() bool { return l.Window != "" }

// WithBurst returns the limit with a burst of n tokens. A quota is refused with a burst that is not its
// capacity.
func (l Limit) WithBurst(n int64) Limit {
	l.Burst = n
	return l
}

// WithMaxDebt returns the limit with a debt of at most n whole tokens; n is at least 1. Charges by Adjust and
// Settle beyond it are counted only.
func (l Limit) WithMaxDebt(n int64) Limit {
	l.MaxDebt = n
	return l
}

// WithReserve returns the limit with n tokens kept from batch calls (WithBatch), at most half of the burst, of a
// quota's amount or of the slots. 0 means a fifth, rounded down; -1 none.
func (l Limit) WithReserve(n int64) Limit {
	l.Reserve = n
	return l
}

// WithAlerts returns the limit with alerts at percentages of its use: WithAlerts(50, 80, 100). It replaces earlier ones.
// A limit with a percentage below 1 or above 100, or with more than 8, is refused where it is used.
func (l Limit) WithAlerts(percent ...int) Limit {
	l.AlertAt = schema.PercentagesOf(percent...)
	return l
}

// ReservedTokens returns the number of whole tokens that batch calls (WithBatch) leave to interactive calls. It
// is Reserve, at most half of Burst, or a fifth of Burst if Reserve is 0. If Reserve is -1 it is 0.
func (l Limit) ReservedTokens() int64 {
	return bucket.Rate{Burst: l.withDefaults().Burst * milli}.ReserveOf(l.Reserve*milli) / milli
}

// AsShadow returns the limit in shadow: it is counted and denies nothing.
func (l Limit) AsShadow() Limit {
	l.Shadow = true
	return l
}

// storedLimits converts limits to their stored form. It fills in no defaults.
func storedLimits(limits []Limit) []schema.ConfigLimit {
	stored := make([]schema.ConfigLimit, len(limits))
	for i, l := range limits {
		stored[i] = schema.ConfigLimit(l)
	}
	return stored
}

// userLimits converts stored limits to those of users, unchanged and in the same order.
func userLimits(stored []schema.ConfigLimit) []Limit {
	limits := make([]Limit, len(stored))
	for i, l := range stored {
		limits[i] = Limit(l)
	}
	return limits
}

// withDefaults returns the limit with defaults for the unset fields: Burst, RefillAmount, the Zone of a quota,
// and Longest of calls in flight.
func (l Limit) withDefaults() Limit { return Limit(schema.ConfigLimit(l).WithDefaults()) }

// Amounts is the number of whole tokens of each limit, by name, that a call takes or gives back.
type Amounts map[string]int64

// UnavailablePolicy is the decision of Acquire when DynamoDB does not answer.
type UnavailablePolicy string

const (
	// Refuse fails the call with *UnavailableError.
	Refuse UnavailablePolicy = "block"
	// Allow admits the call with a lease whose Degraded reports true. If the bucket answers but has no
	// capacity, or too many writers, Allow acts as Local: the store is alive, so its limits stay.
	Allow UnavailablePolicy = "allow"
	// Local admits a call that fits this process's share of the last known limits, see
	// Options.LocalShare. Degraded of its lease is true. It denies everything else. If no limits are
	// known it acts as Refuse.
	Local UnavailablePolicy = "local"
)

// ChargeMode is the way to charge the buckets of an entity and its parents.
type ChargeMode string

const (
	// ChargeParallel asks every level at once. When one denies it gives back the grants of the others.
	// It costs 1 write unit a level.
	ChargeParallel ChargeMode = "parallel"
	// ChargeTransaction charges all levels in one transaction: 2 write units
	// a level, nothing visible in between. More buckets than a transaction holds,
	// 100, are charged as by ChargeParallel.
	ChargeTransaction ChargeMode = "transaction"
)

// LimitStatus is the state of one limit of one entity.
type LimitStatus struct {
	// EntityID is the entity of the bucket: the call's, or a parent.
	EntityID string
	// Resource is the resource of the bucket.
	Resource string
	// Limit is the limit as the bucket holds it.
	Limit Limit
	// Source is the place where the limit is set; empty for a limit that is in the bucket but no longer in
	// the configuration.
	Source sources.Source
	// Requested is the requested amount, in whole tokens.
	Requested int64
	// Remaining is the balance of the bucket, in whole tokens rounded down; negative in debt.
	Remaining int64
	// Uncharged is the part of a lease's Requested that was counted and not charged: it exceeded the
	// limit's deepest debt (Limit.MaxDebt), or a limit in shadow.
	Uncharged int64
	// RetryAfter is the exact wait until Requested fits with no other
	// traffic: 0 when it fits, Never when it exceeds the burst.
	RetryAfter time.Duration
	// Reset is the time until the bucket is full with no other traffic.
	Reset time.Duration
	// InFlight is the number of slots in use, if the limit is one of calls in flight. It exceeds the limit after
	// an outage, after a lower limit was set, and in shadow.
	InFlight int64
	// Exceeded means that Requested does not fit, so that the limit denies it.
	Exceeded bool
	// WouldDeny means that Requested does not fit, or did not, but the limit is in shadow and denies
	// nothing. RetryAfter is the wait of an enforced limit.
	WouldDeny bool
	// Unlimited means that the limit is in shadow because a source is unlimited and counted
	// (admin.LimitConfig.Counted).
	Unlimited bool
	// Estimated means that RetryAfter is a guess, because nobody knows when a call in flight ends.
	Estimated bool
	// ByEstimates means that a quota may be full of estimates: Requested would fit without those of
	// calls that this process has not settled yet, or another process has used the bucket within
	// 30 s. RetryAfter is a guess then, a second, and not the end of the window. Wait goes on until
	// they are settled, or its context ends.
	ByEstimates bool
	// Degraded means that the bucket did not answer. Under Local the numbers are those of this
	// process's share, under Allow those of the last image of the bucket.
	Degraded bool
}

// limitText is a Limit in the JSON for people, without fields that have their default.
type limitText struct {
	Name         string `json:"name"`
	Capacity     int64  `json:"capacity"`
	Burst        int64  `json:"burst,omitempty"`
	RefillAmount int64  `json:"refill_amount,omitempty"`
	Period       string `json:"period,omitempty"`
	Window       string `json:"window,omitempty"`
	Zone         string `json:"zone,omitempty"`
	Unit         string `json:"unit,omitempty"`
	PerModel     bool   `json:"per_model,omitempty"`
	MaxDebt      int64  `json:"max_debt,omitempty"`
	Reserve      int64  `json:"reserve,omitempty"`
	Shadow       bool   `json:"shadow,omitempty"`
	Hold         string `json:"hold,omitempty"`
	Longest      string `json:"longest,omitempty"`
	AlertAt      []int  `json:"alert_at,omitempty"`
}

// MarshalJSON writes a limit in a form for people:
//
//	{"name":"rpm","capacity":600,"burst":900,"period":"1m"}
//	{"name":"usd","capacity":50000000,"window":"day","zone":"America/Los_Angeles"}
//	{"name":"inflight","capacity":20,"hold":"1m","longest":"1h"}
//
// It leaves out Burst and RefillAmount if they equal the Capacity.
func (l Limit) MarshalJSON() ([]byte, error) {
	l = l.withDefaults()
	t := limitText{Name: l.Name, Capacity: l.Capacity, Window: l.Window, Zone: l.Zone, Unit: l.Unit, PerModel: l.PerModel, MaxDebt: l.MaxDebt, Reserve: l.Reserve, Shadow: l.Shadow, AlertAt: l.AlertAt.List()}
	switch {
	case l.IsConcurrent():
		t.Hold, t.Longest = periodText(l.Hold), periodText(l.Longest)
	case !l.IsQuota():
		t.Period = periodText(l.RefillPeriod)
	}
	if l.Burst != l.Capacity {
		t.Burst = l.Burst
	}
	if l.RefillAmount != l.Capacity {
		t.RefillAmount = l.RefillAmount
	}
	return json.Marshal(t)
}

// UnmarshalJSON reads the JSON of MarshalJSON, and fills in the defaults. The period is the text of a
// time.Duration, such as "1s", "90s", "1m" or "24h". It refuses unknown fields. The values are checked when the
// limit is used.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var t limitText
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return fmt.Errorf(`dynalimit: limit: %w; write {"name":"rpm","capacity":600,"period":"1m"}, with burst and refill_amount where they differ`, err)
	}
	var period, hold, longest time.Duration
	for _, one := range []struct {
		field, text string
		needed      bool
		to          *time.Duration
	}{
		{"period", t.Period, t.Window == "" && t.Hold == "", &period}, {"hold", t.Hold, false, &hold}, {"longest", t.Longest, false, &longest},
	} {
		if one.text == "" && !one.needed { // quotas and calls in flight have no period
			continue
		}
		var err error
		if *one.to, err = time.ParseDuration(one.text); err != nil {
			return invalid(one.field, "is %q for limit %q; write a duration such as \"1s\", \"1m\" or \"24h\"", one.text, t.Name)
		}
	}
	*l = Limit{Name: t.Name, Capacity: t.Capacity, Burst: t.Burst, RefillAmount: t.RefillAmount, RefillPeriod: period, Window: t.Window, Zone: t.Zone, Unit: t.Unit, PerModel: t.PerModel, MaxDebt: t.MaxDebt, Reserve: t.Reserve, Shadow: t.Shadow, Hold: hold, Longest: longest, AlertAt: schema.PercentagesOf(t.AlertAt...)}.withDefaults()
	return nil
}

// periodText returns a duration as text for time.ParseDuration, without the trailing parts that are 0: "1m",
// not "1m0s".
func periodText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// UnmarshalText reads "block", "allow" or "local"; empty stands for the default of the field. Any other text is
// a *ValidationError.
func (p *UnavailablePolicy) UnmarshalText(text []byte) error {
	return unmarshalName(p, text, "on_unavailable", Refuse, Allow, Local)
}

// UnmarshalText reads "parallel" or "transaction"; empty stands for the default of the field. Any other text is
// a *ValidationError.
func (m *ChargeMode) UnmarshalText(text []byte) error {
	return unmarshalName(m, text, "cascade", ChargeParallel, ChargeTransaction)
}

// unmarshalName stores text in to, if it is one of the names or empty. Otherwise it returns a *ValidationError
// for the field.
func unmarshalName[T ~string](to *T, text []byte, field string, names ...T) error {
	name := T(text)
	if name != "" && !slices.Contains(names, name) {
		return invalid(field, "is %q; write one of %q", name, names)
	}
	*to = name
	return nil
}

const (
	// maxTokens bounds every amount, in whole tokens.
	maxTokens = schema.MaxTokens
	// milli is the number of millitokens in a token.
	milli = 1000
)

// checkContext returns a *ValidationError for a nil context, which would end in a panic far from its cause.
func checkContext(ctx context.Context) error { return problem.CheckContext(ctx, "dynalimit") }

// checkNow calls a clock once, and returns a *ValidationError if its time cannot be stored: before 1970 or
// after the year 9999. A nil clock is valid.
func checkNow(now func() time.Time) error {
	if reason := ddb.CheckSource(now); reason != "" {
		return invalid("options.Now", "%s", reason)
	}
	return nil
}

// checkEntityID returns a *ValidationError of the field for an invalid entity id; nil for a valid one.
func checkEntityID(field, id string) error {
	if reason := schema.EntityRule.Check(id); reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

// checkResource returns a *ValidationError of the field "resource" for an invalid name; nil for a valid one.
func checkResource(resource string) error {
	if reason := schema.ResourceRule.Check(resource); reason != "" {
		return invalid("resource", "%s", reason)
	}
	return nil
}

// checkPolicy returns a *ValidationError of the field for an unknown outage policy. An empty policy is valid.
func checkPolicy(field string, p UnavailablePolicy) error {
	if p != "" && p != Refuse && p != Allow && p != Local {
		return invalid(field, "is %q; give dynalimit.Refuse, dynalimit.Allow or dynalimit.Local", p)
	}
	return nil
}

// checkChargeMode returns a *ValidationError of the field for an unknown charge mode. An empty mode is valid.
func checkChargeMode(field string, m ChargeMode) error {
	if m != "" && m != ChargeParallel && m != ChargeTransaction {
		return invalid(field, "is %q; give dynalimit.ChargeParallel or dynalimit.ChargeTransaction", m)
	}
	return nil
}

// checkLimits returns a copy of a list of limits with the defaults filled in, sorted by name. It returns a
// *ValidationError that names the field of a bad one. An empty list is an error too: it would admit everything
// or nothing.
func checkLimits(field string, limits []Limit) ([]Limit, error) {
	checked, at, reason := schema.CheckLimits(storedLimits(limits))
	if reason != "" {
		return nil, invalid(field+at, "%s", reason)
	}
	return userLimits(checked), nil
}
