package manifest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// file is the YAML and JSON form of a manifest. Its types define the known keys and the output.
type file struct {
	Version   amount   `yaml:"version,omitempty" json:"version,omitempty"`
	Name      *string  `yaml:"name,omitempty" json:"name,omitempty"`
	Namespace *string  `yaml:"namespace,omitempty" json:"namespace,omitempty"`
	System    *source  `yaml:"system,omitempty" json:"system,omitempty"`
	Resources sources  `yaml:"resources,omitempty" json:"resources,omitempty"`
	Plans     plans    `yaml:"plans,omitempty" json:"plans,omitempty"`
	Entities  entities `yaml:"entities,omitempty" json:"entities,omitempty"`
}

type (
	sources  map[string]*source
	plans    map[string]*owned
	entities map[string]*entity
	limits   map[string]*limit
)

// owned is the sources of a plan or an entity.
type owned struct {
	Default   *source `yaml:"default,omitempty" json:"default,omitempty"`
	Resources sources `yaml:"resources,omitempty" json:"resources,omitempty"`
}

// entity also has the record. Its pointers distinguish missing fields from empty ones.
type entity struct {
	Name     *string `yaml:"name,omitempty" json:"name,omitempty"`
	Parent   *string `yaml:"parent,omitempty" json:"parent,omitempty"`
	Cascade  *bool   `yaml:"cascade,omitempty" json:"cascade,omitempty"`
	Detached *bool   `yaml:"detached,omitempty" json:"detached,omitempty"`
	Plan     *string `yaml:"plan,omitempty" json:"plan,omitempty"`
	// Only confirms that money may go out of force with another plan or parent.
	Only     bool     `yaml:"only,omitempty" json:"only,omitempty"`
	Metadata metadata `yaml:"metadata,omitempty" json:"metadata,omitempty"`
	owned    `yaml:",inline"`
}

type source struct {
	Limits limits `yaml:"limits,omitempty" json:"limits,omitempty"`
	// Extends puts the limits over those of less specific sources, and Lifted removes some of
	// those. Only confirms that limits may go out of force.
	Extends   bool      `yaml:"extends,omitempty" json:"extends,omitempty"`
	Lifted    []string  `yaml:"lifted,omitempty,flow" json:"lifted,omitempty"`
	Only      bool      `yaml:"only,omitempty" json:"only,omitempty"`
	Unlimited unlimited `yaml:"unlimited,omitempty" json:"unlimited,omitempty"`
	Blocked   bool      `yaml:"blocked,omitempty" json:"blocked,omitempty"`
	// BlockedExcept is a block with exceptions: Admit of a more specific source lifts it.
	BlockedExcept bool   `yaml:"blocked_except,omitempty" json:"blocked_except,omitempty"`
	Admit         bool   `yaml:"admit,omitempty" json:"admit,omitempty"`
	OnUnavailable string `yaml:"on_unavailable,omitempty" json:"on_unavailable,omitempty"`
	// Groups is allowed only for a resource of everybody.
	Groups []string `yaml:"groups,omitempty,flow" json:"groups,omitempty"`
}

type limit struct {
	Capacity capacity `yaml:"capacity,omitempty" json:"capacity,omitempty"`
	Unit     unit     `yaml:"unit,omitempty" json:"unit,omitempty"`
	Burst    amount   `yaml:"burst,omitempty" json:"burst,omitempty"`
	Refill   amount   `yaml:"refill,omitempty" json:"refill,omitempty"`
	Period   period   `yaml:"period,omitempty" json:"period,omitempty"`
	Window   window   `yaml:"window,omitempty" json:"window,omitempty"`
	Zone     zone     `yaml:"zone,omitempty" json:"zone,omitempty"`
	PerModel bool     `yaml:"per_model,omitempty" json:"per_model,omitempty"`
	MaxDebt  amount   `yaml:"max_debt,omitempty" json:"max_debt,omitempty"`
	// Reserve is the part kept from batch calls.
	Reserve reserve  `yaml:"reserve,omitempty" json:"reserve,omitempty"`
	Shadow  bool     `yaml:"shadow,omitempty" json:"shadow,omitempty"`
	AlertAt percents `yaml:"alert_at,omitempty" json:"alert_at,omitempty"`
	// Concurrent is the number of calls in flight. Such a limit has Hold and Longest in place of the rest.
	Concurrent amount `yaml:"concurrent,omitempty" json:"concurrent,omitempty"`
	Hold       period `yaml:"hold,omitempty" json:"hold,omitempty"`
	Longest    period `yaml:"longest,omitempty" json:"longest,omitempty"`
	// zae-limiter's names for refill, and for the period in seconds: accepted, and never
	// written.
	RefillAmount amount  `yaml:"refill_amount,omitempty" json:"-"`
	RefillPeriod seconds `yaml:"refill_period,omitempty" json:"-"`
}

// help describes a whole manifest, for an error about a value of another type.
func (file) help() string { return "a mapping with system, resources, plans or entities" }

// help describes the plans, for an error about a value of another type.
func (plans) help() string {
	return "plans with their sources, such as {pro: {default: {limits: {rpm: 100}}}}"
}

// help describes the sources of a plan or entity, for an error about a value of another type.
func (owned) help() string { return "default or resources" }

// help describes the entities, for an error about a value of another type.
func (entities) help() string { return "entities, such as {team-a: {plan: pro}}" }

// help describes one entity, for an error about a value of another type.
func (entity) help() string { return "name, parent, plan, default or resources" }

// help describes the resources, for an error about a value of another type.
func (sources) help() string {
	return "resources with their sources, such as {gpt-4: {limits: {rpm: 100}}}"
}

// help describes one source, for an error about a value of another type.
func (source) help() string {
	return "a source, such as {limits: {rpm: 100}}, {unlimited: true} or {blocked: true}"
}

// help describes the limits of a source, for an error about a value of another type.
func (limits) help() string {
	return "limits by their names, such as {rpm: 100, tpm: {capacity: 10k, burst: 20k}}"
}

// help describes one limit, for an error about a value of another type.
func (limit) help() string {
	return "a number, or capacity with what differs from its defaults, such as {capacity: 100, burst: 200, period: 1m} or {capacity: 100, window: day, zone: America/Los_Angeles}"
}

// shortForm returns the value to write for a limit: the capacity alone if everything else is the
// default, else all fields.
func (l limit) shortForm() any {
	if l == (limit{Capacity: l.Capacity}) {
		return l.Capacity
	}
	type plain limit
	return plain(l)
}

// MarshalYAML returns a limit as a node in flow style, on one line: the capacity alone if everything else is
// the default, else a mapping.
func (l limit) MarshalYAML() (any, error) {
	var n yaml.Node
	err := n.Encode(l.shortForm())
	n.Style |= yaml.FlowStyle
	return &n, err
}

// MarshalJSON writes a limit in its short form: the capacity alone if everything else is the default.
func (l limit) MarshalJSON() ([]byte, error) { return json.Marshal(l.shortForm()) }

const (
	// mostTokens and longestPeriod are the library's maxima.
	mostTokens    = schema.MaxTokens
	longestPeriod = 366 * 24 * time.Hour
)

// amount is a whole number of tokens.
type amount int64

// MarshalYAML returns an integer node, with separators from 10,000 on: 5000, 10_000.
func (a amount) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: amountOf(int64(a))}, nil
}

// amountOf formats a number for a file, from 10,000 on with separators: 600, 5000, 10_000, 2_500_000.
func amountOf(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return strings.ReplaceAll(notation.GroupedNumber(n), ",", "_")
}

// parseAmount parses a whole number of tokens from 1 to 10^12, such as 500 or 10k. For another text it returns
// 0 and the fault, else the fault is "".
func parseAmount(text string) (amount, string) {
	n, err := notation.ParseCount(text)
	if err != nil || n < 1 || n > mostTokens {
		return 0, fmt.Sprintf("is %q: write a whole number of 1 to 10^12, such as %s", text, notation.ExampleCount)
	}
	return amount(n), ""
}

// percents are the percentages of a quota's alerts.
type percents dynalimit.Percentages

// MarshalYAML writes the percentages as a list of numbers, such as [50, 80].
func (p percents) MarshalYAML() (any, error) { return dynalimit.Percentages(p).List(), nil }

// MarshalJSON writes the percentages as a list of numbers, such as [50,80].
func (p percents) MarshalJSON() ([]byte, error) { return json.Marshal(dynalimit.Percentages(p).List()) }

// parsePercents parses a YAML list of whole percentages from 1 to 100. For another list, also an empty one, it
// returns 0 and the fault; else the fault is "".
func parsePercents(n *yaml.Node) (percents, string) {
	const help = "write percentages from 1 to 100, such as [50, 80, 100]"
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return 0, "is no list: " + help + ", or leave the key out"
	}
	var all []int
	for _, item := range n.Content {
		p, err := strconv.Atoi(item.Value)
		if item.Kind != yaml.ScalarNode || err != nil || p < 1 || p > schema.WholeQuota {
			return 0, fmt.Sprintf("has %q: %s", item.Value, help)
		}
		all = append(all, p)
	}
	return percents(schema.PercentagesOf(all...)), ""
}

// capacity is a whole number of tokens, or dollars with a leading $, or "".
type capacity string

// capacityOf returns a limit's capacity as a text for a file: dollars with a leading $ for money, else tokens.
func capacityOf(l dynalimit.Limit) capacity {
	if l.Unit == dynalimit.USD {
		return capacity(notation.RoundDollars(l.Capacity))
	}
	return capacity(amountOf(l.Capacity))
}

// parseCapacity checks a number of tokens, or dollars such as $5, and returns it in the file's spelling. For
// another text it returns "" and the fault; else the fault is "".
func parseCapacity(text string) (capacity, string) {
	if !capacity(text).inDollars() {
		n, reason := parseAmount(text)
		if reason != "" {
			return "", reason
		}
		return capacity(amountOf(int64(n))), ""
	}
	if n, err := notation.ParseDollars(text); err != nil || n < 1 || n > mostTokens {
		return "", fmt.Sprintf("is %q: write dollars of $0.000001 to $1000000, with up to six decimals", text)
	}
	return capacity(text), ""
}

// inDollars reports whether the capacity is an amount of dollars, such as $5.
func (c capacity) inDollars() bool { return strings.HasPrefix(string(c), "$") }

// number returns the capacity in whole tokens, or in micro-dollars for dollars. It is 0 for an empty capacity.
func (c capacity) number() int64 {
	read := notation.ParseCount
	if c.inDollars() {
		read = notation.ParseDollars
	}
	n, _ := read(string(c)) // parseCapacity has validated it
	return n
}

// MarshalYAML writes dollars as a quoted text, and tokens as a number.
func (c capacity) MarshalYAML() (any, error) {
	if c.inDollars() {
		return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: string(c)}, nil
	}
	return amount(c.number()).MarshalYAML()
}

// MarshalJSON writes dollars as a text, and tokens as a number.
func (c capacity) MarshalJSON() ([]byte, error) {
	if c.inDollars() {
		return json.Marshal(string(c))
	}
	return json.Marshal(c.number())
}

// unlimited is true, or counted, or "" for a source with limits.
type unlimited string

const (
	isUnlimited unlimited = "true"
	isCounted   unlimited = "counted"
)

// unlimitedOf returns the value of the manifest's field unlimited for a configuration: true, counted, or ""
// if it has limits.
func unlimitedOf(c admin.LimitConfig) unlimited {
	switch {
	case c.Counted:
		return isCounted
	case c.Unlimited:
		return isUnlimited
	}
	return ""
}

// MarshalYAML writes the text counted, or true.
func (u unlimited) MarshalYAML() (any, error) {
	if u == isCounted {
		return string(u), nil
	}
	return true, nil
}

// MarshalJSON writes the text counted, or true.
func (u unlimited) MarshalJSON() ([]byte, error) {
	value, err := u.MarshalYAML()
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// parseUnlimited parses the field unlimited: true, counted, or false, which gives "". quoted means that the
// file has a quoted text, which only counted may be. For another text it returns "" and the fault; else the
// fault is "".
func parseUnlimited(text string, quoted bool) (unlimited, string) {
	switch {
	case text == string(isCounted):
		return isCounted, ""
	case text == string(isUnlimited) && !quoted:
		return isUnlimited, ""
	case text == "false" && !quoted:
		return "", ""
	}
	return "", fmt.Sprintf("is %q: write true, false or counted", text)
}

// unit is usd for money.
type unit string

// parseUnit returns the unit usd of money and the fault "". For another text it returns "" and the fault.
func parseUnit(text string) (unit, string) {
	if text != dynalimit.USD {
		return "", fmt.Sprintf("is %q: write usd for money, or leave it out", text)
	}
	return unit(text), ""
}

// period is a duration in whole seconds.
type period time.Duration

// MarshalText writes a duration with its units, such as 1m, 1h30m or 1d.
func (p period) MarshalText() ([]byte, error) {
	return []byte(notation.PeriodText(time.Duration(p))), nil
}

var periodText = regexp.MustCompile(`^(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?$`)

// parsePeriod parses whole seconds up to 366 days, with units: 1s, 90s, 1m, 1h30m, 1d. For another text, also a
// bare number, it returns 0 and the fault; else the fault is "".
func parsePeriod(text string) (period, string) {
	var d float64 // no overflow
	if m := periodText.FindStringSubmatch(text); m != nil {
		for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
			n, _ := strconv.Atoi("0" + m[i+1])
			d += float64(n) * float64(unit)
		}
	}
	switch _, err := strconv.ParseInt(text, 10, 64); {
	case err == nil:
		return 0, fmt.Sprintf("is %s, without a unit: write %ss for seconds, or 1m, 1h, 1d", text, text)
	case d < float64(time.Second) || d > float64(longestPeriod):
		return 0, fmt.Sprintf("is %q: write whole seconds up to 366 days, such as 1s, 90s, 1m, 1h30m or 1d", text)
	}
	return period(d), ""
}

// window is the window of a quota.
type window string

// parseWindow returns a window of the file: hour, day, week or month. For another text it returns "" and the
// reason that it is invalid.
func parseWindow(text string) (window, string) {
	if !slices.Contains(calendar.Units(), text) {
		return "", fmt.Sprintf("is %q: write hour, day, week or month", text)
	}
	return window(text), ""
}

// zone is the time zone of a quota's windows.
type zone string

// parseZone returns an IANA time zone of the file, or "" and the reason that it is invalid.
func parseZone(text string) (zone, string) {
	if _, err := calendar.LoadZone(text); err != nil {
		return "", fmt.Sprintf("is %q: write an IANA time zone, such as America/Los_Angeles, or leave it out for UTC", text)
	}
	return zone(text), ""
}

// seconds is a period in the form of zae-limiter's refill_period.
type seconds time.Duration

// parseSeconds parses a number of whole seconds from 1 to 366 days. For another text it returns 0 and the
// fault; else the fault is "".
func parseSeconds(text string) (seconds, string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > int64(longestPeriod/time.Second) {
		return 0, fmt.Sprintf("is %q: write whole seconds, such as 60, or 'period: 1m' instead", text)
	}
	return seconds(time.Duration(n) * time.Second), ""
}
