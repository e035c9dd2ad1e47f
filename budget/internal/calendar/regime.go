package calendar

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scope says whose spend a quota counts.
type Scope string

// The scopes.
const (
	ScopeOrg Scope = "ORG" // one total for the organisation; apps' quotas are ignored
	ScopeApp Scope = "APP" // each app has its own
)

// String is the scope as it is stored.
func (s Scope) String() string { return string(s) }

// Enforcement says what happens at a quota.
type Enforcement string

// The enforcements. The zero value means Soft.
const (
	Soft Enforcement = "SOFT" // callers are told to move to the next label
	Hard Enforcement = "HARD" // money is reserved before a call; never more than the quota is held and spent
)

// String is the enforcement as it is stored.
func (e Enforcement) String() string { return string(e) }

// Regime is what changes only between days: the zone, whose quotas count, how
// they are enforced, and the counters hard mode keeps.
type Regime struct {
	From        int64       // unix milliseconds; 0 for the first
	Zone        string      // an IANA name; its local date is the day
	Scope       Scope       // whose spend the quotas count
	Enforcement Enforcement // what happens at a quota
	Counters    string      // the hard-mode counters beside the label's day, see JoinKinds
	// Cap is the day that runs until From, even when the earlier zone's date has
	// moved on. Empty for the first.
	Cap string
}

func (r Regime) sameRules(o Regime) bool {
	return r.Zone == o.Zone && r.Scope == o.Scope && r.Enforcement == o.Enforcement && r.Counters == o.Counters
}

var zones sync.Map // name → *time.Location; loading one parses the tz database

// LoadZone finds an IANA time zone; another name is an error.
func LoadZone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is not an IANA time zone", name)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not an IANA time zone", name)
	}
	zones.Store(name, z)
	return z, nil
}

func (r Regime) location() *time.Location {
	z, err := LoadZone(r.Zone)
	if err != nil {
		return time.UTC // validated before it was stored
	}
	return z
}

// CounterKind is one kind of counter that hard mode keeps beside the label's
// day.
type CounterKind struct {
	Period Period // how long it counts
	Total  bool   // all labels together, instead of one
}

// String names the kind as a regime stores it, like month-total.
func (k CounterKind) String() string {
	if k.Total {
		return string(k.Period) + "-total"
	}
	return string(k.Period) + "-label"
}

// JoinKinds lists kinds as a regime stores them.
func JoinKinds(kinds []CounterKind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.String()
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// Counts says that the regime keeps a counter of that kind.
func (r Regime) Counts(k CounterKind) bool {
	return r.Enforcement == Hard && slices.Contains(strings.Split(r.Counters, ","), k.String())
}

// Kinds lists the counters the regime keeps, from the shortest period to the
// longest, each period's label before its total.
func (r Regime) Kinds() []CounterKind {
	var kinds []CounterKind
	for _, p := range []Period{Day, Week, Month} {
		for _, total := range []bool{false, true} {
			if k := (CounterKind{p, total}); r.Counts(k) {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds
}
