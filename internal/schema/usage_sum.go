package schema

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// UsageWindow is the length of time over which usage is summed.
type UsageWindow string

// The windows. They begin in UTC.
const (
	UsageHourly  UsageWindow = hourly
	UsageDaily   UsageWindow = "daily"
	UsageMonthly UsageWindow = "monthly"
)

// UsageKind is the kind of owner of a sum.
type UsageKind string

// The kinds of sums.
const (
	// UsageOfEntity is the usage of one entity.
	UsageOfEntity UsageKind = "entity"
	// UsageOfResource is the usage of a resource, with each cascade counted once.
	UsageOfResource UsageKind = "resource"
	// UsageOfPlan is the usage of the entities on a plan.
	UsageOfPlan UsageKind = "plan"
	// UsageOfChildren is the usage of the children of an entity.
	UsageOfChildren UsageKind = "children"
)

// usageWindows are the windows with the prefixes and the time layouts of their sort keys.
var usageWindows = map[UsageWindow]struct{ entity, others, children, layout string }{
	UsageHourly:  {skUsagePrefix, "#USAGE_HOUR#", "#CHILDREN_HOUR#", hourLayout},
	UsageDaily:   {"#USAGE_DAY#", "#USAGE_DAY#", "#CHILDREN_DAY#", "2006-01-02"},
	UsageMonthly: {"#USAGE_MONTH#", "#USAGE_MONTH#", "#CHILDREN_MONTH#", "2006-01"},
}

const (
	attrSummed      = "summed"
	attrFinal       = "final"
	attrEntities    = "entities"
	attrClosed      = "closed"
	fieldUnrecorded = "r" // the part of fieldNet without a record
)

// UsageSeries is the usage by one owner of one resource over time.
type UsageSeries struct {
	Kind UsageKind
	// ID is the entity, plan or parent; for a resource its name.
	ID       string
	Resource string
	Window   UsageWindow
}

// Partition returns the partition key of the series: that of its resource or plan, of its entity, or of the
// parent for a sum of children.
func (s UsageSeries) Partition(k Keys) string {
	switch s.Kind {
	case UsageOfResource:
		return k.Resource(s.Resource)
	case UsageOfPlan:
		return k.prefix + "PLAN#" + s.ID
	default:
		return k.Entity(s.ID)
	}
}

// Prefix returns the prefix of the sort keys of the series. Without a resource it returns that of all
// resources.
func (s UsageSeries) Prefix() string {
	w := usageWindows[s.Window]
	prefix := w.others
	switch s.Kind {
	case UsageOfEntity:
		prefix = w.entity
	case UsageOfChildren:
		prefix = w.children
	case UsageOfResource, UsageOfPlan:
	}
	if s.Resource == "" {
		return prefix
	}
	return prefix + s.Resource + "#"
}

// Key returns the key of the item with the series' sum for the window that begins at start.
func (s UsageSeries) Key(k Keys, start time.Time) Key {
	return Key{s.Partition(k), s.Prefix() + start.UTC().Format(usageWindows[s.Window].layout)}
}

// Floor returns the start of the window of a moment, in UTC.
func (w UsageWindow) Floor(at time.Time) time.Time {
	at = at.UTC()
	switch w {
	case UsageDaily:
		return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	case UsageMonthly:
		return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	default:
		return at.Truncate(time.Hour)
	}
}

// Next returns the start of the window after the one that begins at start, in UTC.
func (w UsageWindow) Next(start time.Time) time.Time {
	switch w {
	case UsageDaily:
		return start.UTC().AddDate(0, 0, 1)
	case UsageMonthly:
		return start.UTC().AddDate(0, 1, 0)
	default:
		return start.UTC().Add(time.Hour)
	}
}

// UsageSum is the usage in one window: a sum of closed hours. Each write computes it again, and nothing is
// ever added to it.
type UsageSum struct {
	UsageSeries
	Start time.Time
	// Net is the consumption of each limit, in millitokens. In a sum of an entity's own it has, under the
	// name PassedOn, the part that a level above counted too. Unrecorded is the part of Net without a record.
	Net, Unrecorded map[string]int64
	// Unseen counts the unseen ends of its counters.
	Unseen map[string]int64
	// Pending is the part of Net that the stream has not brought yet, in a sum made for a read. It is not
	// stored.
	Pending map[string]int64
	// Units are the units of limits; nil without one.
	Units map[string]string
	// Entities is the number of summed entities.
	Entities int64
	// Final means that no more records of the window can come.
	Final bool
	// Made is the time at which the summed hours were read, in milliseconds since 1970.
	Made int64
	// Place is the place of the entity when the last hour of its own sum was closed; nil for other sums.
	Place *UsagePlace
	// Expires is the item's time to live in seconds since 1970; 0 without one.
	Expires int64
}

// countersByField returns the sum's maps of counters by the field of their attributes. They are the maps of s
// itself, so a change of them changes s.
func (s *UsageSum) countersByField() map[string]map[string]int64 {
	return map[string]map[string]int64{
		fieldNet: s.Net, fieldUnrecorded: s.Unrecorded, fieldUnseen: s.Unseen,
	}
}

// Item returns the item that stores the sum, without Pending and without counters of 0 other than Net. The
// index lists a daily sum under its day. A Place is stored with the mark closed.
func (s UsageSum) Item(k Keys) Item {
	item := s.Key(k, s.Start).Attributes()
	item[attrSummed], item[attrResource] = String(string(s.Kind)), String(s.Resource)
	if s.Kind != UsageOfResource {
		item[attrEntity] = String(s.ID)
	}
	item[attrWindow], item[attrWindowStart] = String(string(s.Window)), String(s.Start.UTC().Format(hourLayout))
	item[attrEntities] = Number(s.Entities)
	item[attrFinal] = &types.AttributeValueMemberBOOL{Value: s.Final}
	for field, values := range s.countersByField() {
		for limit, n := range values {
			if n != 0 || field == fieldNet {
				item[usagePrefix+limit+"_"+field] = Number(n)
			}
		}
	}
	for limit, unit := range s.Units {
		item[usagePrefix+limit+"_"+fieldOfUnit] = String(unit)
	}
	if s.Expires > 0 {
		item[TTL] = Number(s.Expires)
	}
	item[attrMadeAt] = Number(s.Made)
	if s.Place != nil {
		markClosed(item, *s.Place)
	}
	if s.Window == UsageDaily {
		s.putIndexKeys(k, item)
	}
	return item
}

// DecodeUsageSum reads a sum of usage. It returns an error with the item's key and a remedy for any other item,
// and for an unreadable sum.
func DecodeUsageSum(item Item) (UsageSum, error) {
	s := UsageSum{Net: map[string]int64{}, Unrecorded: map[string]int64{}, Unseen: map[string]int64{}}
	s.Kind, s.Window = UsageKind(Text(item, attrSummed)), UsageWindow(Text(item, attrWindow))
	s.ID, s.Resource = Text(item, attrEntity), Text(item, attrResource)
	if s.Kind == UsageOfResource {
		s.ID = s.Resource
	}
	start, err := time.Parse(hourLayout, Text(item, attrWindowStart))
	if _, known := usageWindows[s.Window]; err != nil || !known || s.Kind == "" {
		return UsageSum{}, unreadable(item, errors.New("is no sum of usage"))
	}
	s.Start = start
	d := decoder{item: item}
	fields := s.countersByField()
	for _, attr := range slices.Sorted(maps.Keys(item)) {
		rest, ours := strings.CutPrefix(attr, usagePrefix)
		i := strings.LastIndexByte(rest, '_')
		if !ours || i < 0 {
			continue
		}
		if values, ok := fields[rest[i+1:]]; ok {
			values[rest[:i]], _ = d.number(attr)
		}
	}
	s.Units = usageUnits(item)
	s.Entities, _ = d.number(attrEntities)
	s.Expires, _ = d.number(TTL)
	s.Made, _ = d.number(attrMadeAt)
	if place, closed := ClosedPlace(item); closed {
		s.Place = &place
	}
	final, _ := item[attrFinal].(*types.AttributeValueMemberBOOL)
	s.Final = final != nil && final.Value
	return s, unreadable(item, d.err)
}

// UsagePlace is the place of an entity when an hour of its usage was closed.
type UsagePlace struct {
	// Parent and Plan are the entity's; "" without one.
	Parent, Plan string
}

// CloseSnapshot returns the statement that marks a snapshot as closed and stores the entity's parent, plan and
// gaps in it. Gaps are the growth of counters since an hour before. It fails to apply if the snapshot is gone
// or already closed.
func (p UsagePlace) CloseSnapshot(gaps map[string]int64) Statement {
	b := newStatementBuilder()
	b.requireExists(PK)
	b.requireAbsent(attrClosed)
	b.setValue(attrClosed, &types.AttributeValueMemberBOOL{Value: true})
	if p.Parent != "" {
		b.setValue(attrParentID, String(p.Parent))
	}
	if p.Plan != "" {
		b.setValue(attrPlan, String(p.Plan))
	}
	b.setGaps(gaps)
	return b.build()
}

// SetGaps returns the statement that stores gaps, the growth of counters since an hour before, in a closed
// snapshot. It fails to apply if the snapshot is gone or open.
func SetGaps(gaps map[string]int64) Statement {
	b := newStatementBuilder()
	b.requireExists(attrClosed)
	b.setGaps(gaps)
	return b.build()
}

// setGaps adds to the statement the gap of each counter, in millitokens, in the order of their names.
func (b *statementBuilder) setGaps(gaps map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(gaps)) {
		b.setValue(usagePrefix+name+"_"+fieldGap, Number(gaps[name]))
	}
}

// ClosedPlace returns the entity's parent and plan from a snapshot or sum, and reports whether it is closed.
// The place means nothing if it is false.
func ClosedPlace(item Item) (UsagePlace, bool) {
	closed, _ := item[attrClosed].(*types.AttributeValueMemberBOOL)
	return UsagePlace{Parent: Text(item, attrParentID), Plan: Text(item, attrPlan)}, closed != nil && closed.Value
}
