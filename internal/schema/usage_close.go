package schema

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	skUsageClosed = "#USAGE_CLOSED"
	attrClosedTo  = "closed_to"
	attrFinalTo   = "final_to"
	attrFrom      = "closed_from"
	attrMadeAt    = "made_at"
)

// hourlyOf returns namespace, entity, resource and hour from the key of an entity's hourly item with a sort key
// that begins with prefix. It returns false for any other key.
func hourlyOf(key Key, prefix string) (k Keys, entity, resource string, hour time.Time, ok bool) {
	k, kind, entity, known := splitPartition(key.PK)
	rest, ours := strings.CutPrefix(key.SK, prefix)
	i := strings.LastIndexByte(rest, '#')
	if !known || !ours || kind != "ENTITY#" || entity == "" || i <= 0 {
		return Keys{}, "", "", time.Time{}, false
	}
	hour, err := time.Parse(hourLayout, rest[i+1:])
	return k, entity, rest[:i], hour, err == nil
}

// UsageOf returns namespace, entity, resource and hour from the key of an hourly snapshot; ok is false for any
// other key.
func UsageOf(key Key) (k Keys, entity, resource string, hour time.Time, ok bool) {
	return hourlyOf(key, skUsagePrefix)
}

// UsageShard returns the shard, from 0 to UsageShards-1, of an hour's list that has an entity's usage of a
// resource. It is the same in every hour.
func UsageShard(entity, resource string) int { return usageShard(entity + "#" + resource) }

// usageShard returns the shard, from 0 to UsageShards-1, for a name.
func usageShard(of string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(of)) // never fails
	return int(h.Sum32() % UsageShards)
}

// UsageDay returns the partition key of one shard of the index that lists the sums of a day.
func (k Keys) UsageDay(day time.Time, shard int) string {
	return fmt.Sprintf("%sUSAGE#%s#%d", k.prefix, day.UTC().Format(usageWindows[UsageDaily].layout), shard)
}

// Shard returns the shard, from 0 to UsageShards-1, of a day's list that has the series. It is the same on
// every day.
func (s UsageSeries) Shard(k Keys) int { return usageShard(s.Partition(k) + s.Prefix()) }

// putIndexKeys sets the GSI3 keys in item, in place, so that the index lists the sum under its day.
func (s UsageSum) putIndexKeys(k Keys, item Item) {
	item[GSI3PK] = String(k.UsageDay(s.Start, s.Shard(k)))
	item[GSI3SK] = String(s.Partition(k) + s.Prefix())
}

// SeriesOf returns the series in the key of a daily sum of the namespace; false for any other key.
func (k Keys) SeriesOf(key Key) (UsageSeries, bool) {
	w := usageWindows[UsageDaily]
	partition, inside := strings.CutPrefix(key.PK, k.prefix)
	kind, id, _ := strings.Cut(partition, "#")
	s := UsageSeries{ID: id, Window: UsageDaily}
	rest, ours := strings.CutPrefix(key.SK, w.others)
	switch {
	case kind == "ENTITY" && ours:
		s.Kind = UsageOfEntity
	case kind == "ENTITY":
		s.Kind = UsageOfChildren
		rest, ours = strings.CutPrefix(key.SK, w.children)
	case kind == "RESOURCE":
		s.Kind = UsageOfResource
	case kind == "PLAN":
		s.Kind = UsageOfPlan
	}
	i := strings.LastIndexByte(rest, '#')
	if !inside || !ours || s.Kind == "" || id == "" || i <= 0 {
		return UsageSeries{}, false
	}
	s.Resource = rest[:i]
	return s, true
}

// PutCondition returns the condition for a Put of the sum: the stored sum is not later, and not final unless
// this one is final.
func (s UsageSum) PutCondition() Statement {
	b := newStatementBuilder()
	made := b.name(attrMadeAt)
	b.require("(attribute_not_exists(" + made + ") OR " + made + " <= " + b.value(Number(s.Made)) + ")")
	if !s.Final {
		final := b.name(attrFinal)
		b.require("(attribute_not_exists(" + final + ") OR " + final + " = " + b.value(&types.AttributeValueMemberBOOL{}) + ")")
	}
	return b.build()
}

// LaterMadeTime returns the time, in Unix ms, at which the stored sum was made, if only that later time keeps
// this sum from replacing it. It returns 0 otherwise, also for an unreadable one.
func (s UsageSum) LaterMadeTime(stored Item) int64 {
	kept, err := DecodeUsageSum(stored)
	if err != nil || kept.Made <= s.Made || kept.Final && !s.Final {
		return 0
	}
	return kept.Made
}

// markClosed marks an item as closed, in place, and sets the entity's parent and plan in it, each if it has
// one.
func markClosed(item Item, p UsagePlace) {
	item[attrClosed] = &types.AttributeValueMemberBOOL{Value: true}
	if p.Parent != "" {
		item[attrParentID] = String(p.Parent)
	}
	if p.Plan != "" {
		item[attrPlan] = String(p.Plan)
	}
}

// UsageCursor is the progress of closing the hours of a namespace.
type UsageCursor struct {
	// First is the first closed hour; zero if it is unknown. Closed is the first open hour, Final the first
	// that is not final.
	First, Closed, Final time.Time
}

// UsageClosed returns the key of the namespace's UsageCursor.
func (k Keys) UsageClosed() Key { return Key{k.prefix + "SYSTEM#", skUsageClosed} }

// ReplaceCursor returns the statement that stores the cursor; a zero First leaves the stored one. It fails to
// apply unless Closed and Final are still as in old; the zero old means an absent cursor.
func (c UsageCursor) ReplaceCursor(old UsageCursor) Statement {
	b := newStatementBuilder()
	if !c.First.IsZero() {
		b.setValue(attrFrom, String(c.First.UTC().Format(hourLayout)))
	}
	for _, part := range []struct {
		attr     string
		now, old time.Time
	}{{attrClosedTo, c.Closed, old.Closed}, {attrFinalTo, c.Final, old.Final}} {
		b.setValue(part.attr, String(part.now.UTC().Format(hourLayout)))
		if part.old.IsZero() {
			b.requireAbsent(part.attr)
		} else {
			b.requireCompare(part.attr, "=", String(part.old.UTC().Format(hourLayout)))
		}
	}
	return b.build()
}

// DecodeUsageCursor reads a cursor. It returns the zero UsageCursor for an absent item or one without hours,
// and an error for a malformed hour.
func DecodeUsageCursor(item Item) (c UsageCursor, err error) {
	if item[attrClosedTo] == nil && item[attrFinalTo] == nil {
		return c, nil
	}
	if c.Closed, err = time.Parse(hourLayout, Text(item, attrClosedTo)); err == nil {
		c.Final, err = time.Parse(hourLayout, Text(item, attrFinalTo))
	}
	if from := Text(item, attrFrom); err == nil && from != "" {
		c.First, err = time.Parse(hourLayout, from)
	}
	if err != nil {
		key := KeyOf(item)
		return UsageCursor{}, fmt.Errorf("item %q, %q is not a valid end of closed usage: %w; delete it to begin again", key.PK, key.SK, err)
	}
	return c, nil
}
