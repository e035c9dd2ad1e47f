package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
)

// A calendar quota has attributes of its own in a bucket. q_{name}_tk, _bx, _tc and _up are like those of a
// token bucket, _w is the ordinal of its open window, and _z has its windows: "day America/Los_Angeles".
// Within a window it regains nothing, so it ignores rf: each write requires the window.
const quotaPrefix = "q_"

// fieldWindow and fieldWindows are the suffixes of the two attributes that only quotas have.
const (
	fieldWindow  = "w"
	fieldWindows = "z"
)

// kindPrefix is the prefix of configuration attributes of limits other than token buckets.
const kindPrefix = "k_"

// In configuration k_{name}_n is the allowance of a quota in each window, in whole tokens, _w the unit of its
// windows and _z their time zone. _u is "usd" for money, in micro-dollars, and "usd/model" for money per
// model.
const (
	fieldAllowed = "n"
	fieldUnit    = "w"
	fieldZone    = "z"
	fieldMoney   = "u"
	// Of any limit k_{name}_d is the deepest debt from corrections, in whole tokens.
	fieldMaxDebt = "d"
	// Of any limit k_{name}_r is the number of tokens kept from batch calls, -1 for none.
	fieldReserve = "r"
	// Of any limit k_{name}_s is true if it is in shadow.
	fieldShadow = "s"
	// k_{name}_off is true for a limit of less specific sources that a source takes away.
	fieldLifted = "off"

	// USD is the unit of money: micro-dollars.
	USD = "usd"

	money    = USD
	perModel = money + "/model"
)

// splitQuota splits a configuration attribute k_{name}_{field} of a limit at the last underscore. ok is false
// for any other attribute, and for one of a raise.
func splitQuota(attr string) (name, field string, ok bool) {
	rest, ok := strings.CutPrefix(attr, kindPrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 {
		return "", "", false
	}
	switch field = rest[i+1:]; field {
	case fieldAllowed, fieldUnit, fieldZone, fieldMoney, fieldMaxDebt, fieldReserve, fieldShadow, fieldLifted, fieldHold, fieldLongest:
		return rest[:i], field, true
	}
	return "", "", false
}

// A source may raise a token bucket until an instant. k_{name}_rn is the capacity until then in whole tokens,
// _rt the end in Unix seconds, and _rp the refill period of the raised limit, in seconds. A limit with
// another period, or of another kind, is not raised.
const (
	fieldRaised      = "rn"
	fieldRaiseEnds   = "rt"
	fieldRaisePeriod = "rp"
)

// splitRaise splits an attribute k_{name}_{field} of a raise at the last underscore. ok is false for any other
// attribute.
func splitRaise(attr string) (name, field string, ok bool) {
	rest, ok := strings.CutPrefix(attr, kindPrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 {
		return "", "", false
	}
	switch field = rest[i+1:]; field {
	case fieldRaised, fieldRaiseEnds, fieldRaisePeriod:
		return rest[:i], field, true
	}
	return "", "", false
}

// putQuota sets the attributes of a quota in a configuration item, in place: amount, window, zone and, for
// money, the unit.
func (l ConfigLimit) putQuota(item Item) {
	prefix := kindPrefix + l.Name + "_"
	item[prefix+fieldAllowed], item[prefix+fieldUnit], item[prefix+fieldZone] = Number(l.Capacity), String(l.Window), String(l.Zone)
	switch {
	case l.PerModel:
		item[prefix+fieldMoney] = String(perModel)
	case l.Unit != "":
		item[prefix+fieldMoney] = String(l.Unit)
	}
}

// quotasIn returns the quotas of a configuration item, unsorted. It fails for an unknown window, time zone or
// malformed amount.
func quotasIn(item Item) (quotas []ConfigLimit, err error) {
	d := decoder{item: item}
	for attr := range item {
		name, field, ok := splitQuota(attr)
		if !ok || field != fieldAllowed || isSlots(item, name) {
			continue
		}
		prefix := kindPrefix + name + "_"
		allowed, _ := d.number(attr)
		q := ConfigLimit{
			Name: name, Capacity: allowed, Burst: allowed, RefillAmount: allowed,
			Window: Text(item, prefix+fieldUnit), Zone: Text(item, prefix+fieldZone), Unit: Text(item, prefix+fieldMoney),
		}
		if q.Unit == perModel {
			q.Unit, q.PerModel = money, true
		}
		if _, err := calendar.WindowsOf(q.Window, q.Zone); err != nil {
			return nil, fmt.Errorf("attribute %s: %w", prefix+fieldUnit, err)
		}
		quotas = append(quotas, q)
	}
	return quotas, d.err
}

// unknownQuota reports whether the k_ attributes of a limit come from a later version: an unknown window or
// unit, or missing attributes of its kind. It covers quotas, limits of calls in flight, lifted limits and token
// buckets.
func unknownQuota(item Item, name string) bool {
	prefix := kindPrefix + name + "_"
	if isSlots(item, name) || item[prefix+fieldLongest] != nil { // it has no windows
		return item[prefix+fieldAllowed] == nil || item[prefix+fieldHold] == nil || item[prefix+fieldUnit] != nil || item[prefix+fieldMoney] != nil
	}
	if unit := Text(item, prefix+fieldMoney); unit != "" && unit != money && unit != perModel {
		return true
	}
	if item[prefix+fieldAllowed] == nil && item[limitPrefix+name+"_"+fieldCapacity] != nil { // a bucket
		return item[prefix+fieldUnit] != nil
	}
	if item[prefix+fieldAllowed] == nil && item[prefix+fieldLifted] != nil {
		return item[prefix+fieldUnit] != nil
	}
	return item[prefix+fieldAllowed] == nil || !slices.Contains(calendar.Units(), Text(item, prefix+fieldUnit))
}

// quotaRate returns the rate of a quota with the given burst, in millitokens, in the windows that attribute
// attr names. The rate is zero without windows; a malformed text sets d.err.
func (d *decoder) quotaRate(burst int64, attr string) (r bucket.Rate) {
	text := Text(d.item, attr)
	if text == "" {
		return r
	}
	windows, err := calendar.Parse(text)
	if err != nil {
		d.err = fmt.Errorf("attribute %s: %w", attr, err)
		return r
	}
	return bucket.Quota(burst, windows)
}

// isSlots reports whether a configuration item has a limit of calls in flight with a name.
func isSlots(item Item, name string) bool { return item[kindPrefix+name+"_"+fieldHold] != nil }
