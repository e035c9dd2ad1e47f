package schema

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	skUsageKept   = "#USAGE_KEPT#"
	attrClosing   = "closing"
	attrFinishing = "finishing"
	attrCounted   = "counted"
	courseFields  = 9
)

// UsageCourse says how far the closing of an hour came that did not end with its call.
type UsageCourse struct {
	// Hour is the one that is closed, and Final says whether it becomes final.
	Hour  time.Time
	Final bool
	// Made is when reading began, and Later when sums seem to have been read that were not
	// replaced; 0 for none. Both are in milliseconds since 1970.
	Made, Later int64
	// Window is how many of the windows that end with the hour are summed, and Shard how many
	// shards of the next one. Of the shard after these Done are summed; Last names the last.
	Window, Shard, Done int
	Last                string
	// Kept is where what was summed so far is kept, in so many Parts.
	Kept  string
	Parts int
}

// note is the attribute that holds a course.
func (c UsageCourse) note() string {
	if c.Final {
		return attrFinishing
	}
	return attrClosing
}

// text is a course in one line: of two, the one that came further is the greater text.
func (c UsageCourse) text() string {
	return fmt.Sprintf("%s %015d %d %02d %09d %s %d %d %s",
		c.Hour.UTC().Format(hourLayout), c.Made, c.Window, c.Shard, c.Done, c.Kept, c.Later, c.Parts, c.Last)
}

// Note is the statement that notes a course beside the cursor, unless one is there that came
// further.
func (c UsageCourse) Note() Statement {
	b := newStatementBuilder()
	note, text := b.name(c.note()), String(c.text())
	b.require("(attribute_not_exists(" + note + ") OR " + note + " < " + b.value(text) + ")")
	b.setValue(c.note(), text)
	return b.build()
}

// course reads one that was noted; false for none. One that cannot be read is none: what it
// tells can be summed anew.
func course(item Item, final bool) (c UsageCourse, ok bool) {
	c.Final = final
	f := strings.SplitN(Text(item, c.note()), " ", courseFields)
	if len(f) < courseFields {
		return UsageCourse{}, false
	}
	var err error
	number := func(text string) int64 {
		n, bad := strconv.ParseInt(text, 10, 64)
		if bad != nil {
			err = bad
		}
		return n
	}
	hour, bad := time.Parse(hourLayout, f[0])
	c.Hour, c.Made, c.Later, c.Kept, c.Last = hour, number(f[1]), number(f[6]), f[5], f[8]
	c.Window, c.Shard, c.Done, c.Parts = int(number(f[2])), int(number(f[3])), int(number(f[4])), int(number(f[7]))
	return c, err == nil && bad == nil
}

// UsagePart is what a sum that is being made holds so far.
type UsagePart struct {
	UsageSum
	// Counted is how many entities it has counted one by one.
	Counted int64
	// Named says that nothing was summed yet: the series is known, and entities were counted.
	Named bool
}

// UsageKept is the key of a kept part, by its number.
func (k Keys) UsageKept(kept string, n int) Key {
	return Key{k.prefix + "SYSTEM#", skUsageKept + kept + "#" + fmt.Sprintf("%06d", n)}
}

// Item returns the item of a part, to be kept until expires, in seconds since 1970.
func (p UsagePart) Item(key Key, expires int64) Item {
	p.Expires = expires
	if p.Named {
		p.Entities = -1
	}
	item := p.UsageSum.Item(Keys{})
	delete(item, GSI3PK)
	delete(item, GSI3SK)
	item[PK], item[SK] = String(key.PK), String(key.SK)
	item[attrCounted] = Number(p.Counted)
	return item
}

// DecodeUsagePart reads a part; false for one that cannot be read: it can be summed anew.
func DecodeUsagePart(item Item) (p UsagePart, ok bool) {
	sum, err := DecodeUsageSum(item)
	d := decoder{item: item}
	p.UsageSum = sum
	p.Counted, ok = d.number(attrCounted)
	p.Named = p.Entities < 0
	p.Entities = max(p.Entities, 0)
	return p, ok && err == nil && d.err == nil
}
