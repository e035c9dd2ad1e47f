package denials

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// limitsPerWrite bounds the limits of one write: an expression has 4 KB and 300 operators.
const limitsPerWrite = 100

// counter is what is counted apart.
type counter struct {
	entity, resource, limit string
	hour                    int64 // since 1970
}

// tally sums denials in bounded memory.
type tally struct {
	most   int
	counts map[counter]int64
}

func newTally(most int) tally { return tally{most: most, counts: map[counter]int64{}} }

// add counts n denials; false if there is no room for another counter.
func (t *tally) add(c counter, n int64) bool {
	before, known := t.counts[c]
	if !known {
		if len(t.counts) >= t.most {
			return false
		}
		c.entity, c.resource, c.limit = strings.Clone(c.entity), strings.Clone(c.resource), strings.Clone(c.limit) // which may be parts of much longer texts
	}
	t.counts[c] = before + n
	return true
}

// take empties the tally.
func (t *tally) take() map[counter]int64 {
	taken := t.counts
	t.counts = map[counter]int64{}
	return taken
}

// hourOf is the hour of a moment.
func hourOf(at time.Time) int64 {
	return schema.UsageHourly.Floor(at).Unix() / 3600
}

// items are the items that counters are added to, in the order of their keys.
func items(keys schema.Keys, counts map[counter]int64, retention time.Duration) []schema.Denied {
	all := make([]counter, 0, len(counts))
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b counter) int {
		return cmp.Or(strings.Compare(a.entity, b.entity), strings.Compare(a.resource, b.resource), cmp.Compare(a.hour, b.hour), strings.Compare(a.limit, b.limit))
	})
	var out []schema.Denied
	for i, c := range all {
		if i == 0 || !sameItem(all[i-1], c) || len(out[len(out)-1].Limits) == limitsPerWrite {
			out = append(out, itemOf(keys, c, retention))
		}
		out[len(out)-1].Limits[c.limit] = counts[c]
	}
	return out
}

func sameItem(a, b counter) bool { a.limit = b.limit; return a == b }

func itemOf(keys schema.Keys, c counter, retention time.Duration) schema.Denied {
	d := schema.Denied{
		Keys: keys, Entity: c.entity, Resource: c.resource, Hour: time.Unix(c.hour*3600, 0).UTC(), Limits: map[string]int64{},
	}
	if retention > 0 {
		d.Expires = d.Hour.Add(time.Hour + retention).Unix()
	}
	return d
}
