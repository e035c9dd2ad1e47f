package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
)

// A calendar quota has attributes of its own in a bucket: q_{name}_tk, _bx, _tc and _up are what
// those of a token bucket are, _w is the ordinal of the window that it was opened for, and _z
// says which windows: "day America/Los_Angeles". Within a window it regains nothing, so that rf
// plays no part: each write requires the window.
const quotaPrefix = "q_"

// fieldWindow and fieldWindows end the names of the two attributes that only quotas have.
const (
	fieldWindow  = "w"
	fieldWindows = "z"
)

// In configuration k_{name}_n is what a quota allows in each window, in whole tokens, _w the
// unit of its windows and _z their time zone.
const (
	fieldAllowed = "n"
	fieldUnit    = "w"
	fieldZone    = "z"
)

// splitQuota splits an attribute of configuration that is of a quota; false for another.
func splitQuota(attr string) (name, field string, ok bool) {
	rest, ok := strings.CutPrefix(attr, kindPrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 {
		return "", "", false
	}
	switch field = rest[i+1:]; field {
	case fieldAllowed, fieldUnit, fieldZone:
		return rest[:i], field, true
	}
	return "", "", false
}

// isQuota reports whether a stored limit is one.
func (l ConfigLimit) isQuota() bool { return l.Unit != "" }

// putQuota writes a quota into an item of configuration.
func (l ConfigLimit) putQuota(item Item) {
	prefix := kindPrefix + l.Name + "_"
	item[prefix+fieldAllowed], item[prefix+fieldUnit], item[prefix+fieldZone] = Number(l.Capacity), String(l.Unit), String(l.Zone)
}

// quotasIn are the quotas that an item of configuration has. One whose unit is not known is of
// a kind that is not.
func quotasIn(item Item) (quotas []ConfigLimit, err error) {
	d := decoder{item: item}
	for attr := range item {
		name, field, ok := splitQuota(attr)
		if !ok || field != fieldAllowed {
			continue
		}
		l := ConfigLimit{Name: name, Unit: Text(item, kindPrefix+name+"_"+fieldUnit), Zone: Text(item, kindPrefix+name+"_"+fieldZone)}
		l.Capacity, _ = d.number(attr)
		l.Burst, l.Amount = l.Capacity, l.Capacity
		if _, err := calendar.WindowsOf(l.Unit, l.Zone); err != nil {
			return nil, fmt.Errorf("attribute %s%s_%s: %w", kindPrefix, name, fieldUnit, err)
		}
		quotas = append(quotas, l)
	}
	return quotas, d.err
}

// unknownQuota reports whether an attribute is of a quota that is of a later version: its unit
// is none that is known, or it has no amount.
func unknownQuota(item Item, name string) bool {
	prefix := kindPrefix + name + "_"
	return item[prefix+fieldAllowed] == nil || !slices.Contains(calendar.Units(), Text(item, prefix+fieldUnit))
}

// unknownWindows is the quota whose windows an attribute of a bucket says, if they are of a unit
// that is not known.
func unknownWindows(item Item, attr string) (name string, unknown bool) {
	name, field, quota, _ := splitBucketAttr(attr)
	unit, _, _ := strings.Cut(Text(item, attr), " ")
	return name, quota && field == fieldWindows && !slices.Contains(calendar.Units(), unit)
}

func attrsOfQuota(name string) limitAttrs {
	p := quotaPrefix + name + "_"
	return limitAttrs{tokens: p + "tk", burst: p + "bx", consumed: p + "tc", passed: p + fieldPassed, window: p + fieldWindow, windows: p + fieldWindows}
}

// isQuota reports whether the attributes are those of a quota.
func (a limitAttrs) isQuota() bool { return a.window != "" }

// quota reads the rate and the window of a quota.
func (d *decoder) quota(l *Stored, a limitAttrs) {
	l.Window, _ = d.number(a.window)
	l.Capacity = l.Burst
	text := Text(d.item, a.windows)
	if text == "" || d.item[a.window] == nil {
		return // a ghost
	}
	windows, err := calendar.Parse(text)
	if err != nil {
		d.err = err
		return
	}
	l.Rate = bucket.Quota(l.Burst, windows)
}

// quotaRate writes what a quota allows.
func (b *statementBuilder) quotaRate(a limitAttrs, r bucket.Rate) {
	b.setValue(a.burst, Number(r.Burst))
	b.setValue(a.windows, String(r.Windows().String()))
}

// inWindow requires a quota to be in the window that it was seen in, and opens a later one.
func (b *statementBuilder) inWindow(a limitAttrs, seen, window int64) {
	b.compare(a.window, "=", Number(seen))
	if window != seen {
		b.setValue(a.window, Number(window))
	}
}

// text adds a quota's part to the text of a spend: its window, and the least that it must hold.
func (l *SpendLimit) quotaText(b *statementBuilder, a limitAttrs, take func() string) {
	b.add = append(b.add, b.name(a.tokens)+" "+take(), b.name(a.consumed)+" "+take())
	l.passedText(b, a, take)
	b.require(b.name(a.window) + " = " + take())
	if l.HasLow {
		b.require(b.name(a.tokens) + " >= " + take())
	}
}

// quotaValues puts the values of that text.
func (l *SpendLimit) quotaValues(window int64, number func(int64) types.AttributeValue, put func(types.AttributeValue)) {
	put(number(l.Add))
	put(number(l.Consumed))
	if l.Passed != 0 {
		put(number(l.Passed))
	}
	put(number(window))
	if l.HasLow {
		put(number(l.Low))
	}
}
