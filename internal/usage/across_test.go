package usage

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestWhatIsConsumedAtAFullHour: in the first minute of an hour, or in its last.
func TestWhatIsConsumedAtAFullHour(t *testing.T) {
	took := func(seq int, at time.Duration, before, n int64) Change {
		return change(seq, at, counters{"rpm": before}, counters{"rpm": before + n})
	}
	for name, c := range map[string]struct {
		of   []Change
		want schema.UsageEdges
	}{
		"when it begins":      {[]Change{took(1, 0, 1, 5), took(2, time.Minute-1, 6, -2)}, schema.UsageEdges{Early: counts{"rpm": 3}, Late: counts{}}},
		"later":               {[]Change{took(1, time.Minute, 1, 5), took(2, 59*time.Minute-1, 6, 5)}, schema.UsageEdges{Early: counts{}, Late: counts{}}},
		"before it ends":      {[]Change{took(1, 59*time.Minute, 1, 5), took(2, time.Hour-1, 6, 5)}, schema.UsageEdges{Early: counts{}, Late: counts{"rpm": 10}}},
		"at both":             {[]Change{took(1, 0, 1, 5), took(2, time.Hour-1, 6, 7)}, schema.UsageEdges{Early: counts{"rpm": 5}, Late: counts{"rpm": 7}}},
		"as much as was back": {[]Change{took(1, 0, 1, 5), took(2, 0, 6, -5)}, schema.UsageEdges{Early: counts{"rpm": 0}, Late: counts{}}},
		"by a new bucket":     {[]Change{change(1, 0, nil, counters{"rpm": 4})}, schema.UsageEdges{Early: counts{"rpm": 4}, Late: counts{}}},
		"by none":             {[]Change{change(1, 0, counters{"rpm": 4}, nil)}, schema.UsageEdges{Early: counts{}, Late: counts{}}},
		"not by other limits": {[]Change{change(1, 0, counters{"rpm": 4, "tpm": 1}, counters{"rpm": 4, "tpm": 3})}, schema.UsageEdges{Early: counts{"tpm": 2}, Late: counts{}}},
		"after what is lost":  {[]Change{took(1, time.Minute, 1, 5), took(2, time.Hour-1, 100, 7)}, schema.UsageEdges{Early: counts{}, Late: counts{"rpm": 7}}},
	} {
		folds := Folds(c.of, 0)
		if assert.Len(t, folds, 1, name) {
			assert.Equal(t, c.want, folds[0].Edges, name)
		}
	}
}

// edged is an entry with what of it was used when the hour began, and before it ended.
func edged(e Entry, early, late counts) Entry {
	e.Edges = schema.UsageEdges{Early: early, Late: late}
	return e
}

// seen is an hour beside that of noon: what an entity counted there at full hours, and where it
// stood.
type seen struct {
	entity      string
	hours       int
	early, late counts
	plan        string
	above       []string
}

// TestLevelsBeyondAFullHourCountOnce: what somebody above counted on the other side of a full
// hour does not count on this side, whatever else was used in the hour.
func TestLevelsBeyondAFullHourCountOnce(t *testing.T) {
	key := func(net, early, late counts) Entry { return edged(used("key", "pro", net, "team", "org"), early, late) }
	for name, c := range map[string]struct {
		of             []Entry
		seen           []seen
		resource, plan total
	}{
		"nothing beyond": {
			of:       []Entry{key(counts{"rpm": 5}, counts{"rpm": 5}, nil)},
			resource: total{counts{"rpm": 5}, 1}, plan: total{counts{"rpm": 5}, 1},
		},
		"the hour before": {
			of:   []Entry{key(counts{"rpm": 5}, counts{"rpm": 5}, nil)},
			seen: []seen{{entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "pro"}},
		},
		"the hour after": {
			of:   []Entry{key(counts{"rpm": 5}, nil, counts{"rpm": 5})},
			seen: []seen{{entity: "org", hours: 1, early: counts{"rpm": 5}, plan: "pro"}},
		},
		"both, and something between": {
			of:       []Entry{key(counts{"rpm": 15}, counts{"rpm": 5}, counts{"rpm": 7})},
			seen:     []seen{{entity: "org", hours: 1, early: counts{"rpm": 7}, plan: "pro"}, {entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "pro"}},
			resource: total{counts{"rpm": 3}, 1}, plan: total{counts{"rpm": 3}, 1},
		},
		"not at the full hour": {
			of:       []Entry{key(counts{"rpm": 5}, counts{"rpm": 5}, nil)},
			seen:     []seen{{entity: "team", hours: -1, early: counts{"rpm": 5}, plan: "pro"}, {entity: "team", hours: 1, early: counts{"rpm": 5}, plan: "pro"}},
			resource: total{counts{"rpm": 5}, 1}, plan: total{counts{"rpm": 5}, 1},
		},
		"another limit": {
			of:       []Entry{key(counts{"rpm": 5, "tpm": 9}, counts{"rpm": 5, "tpm": 9}, nil)},
			seen:     []seen{{entity: "team", hours: -1, late: counts{"tpm": 1}, plan: "pro"}},
			resource: total{counts{"rpm": 5}, 1}, plan: total{counts{"rpm": 5}, 1},
		},
		"on another plan": {
			of:   []Entry{key(counts{"rpm": 5}, counts{"rpm": 5}, nil)},
			seen: []seen{{entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "free"}},
			plan: total{counts{"rpm": 5}, 1},
		},
		"an entry whose parent counted it here": {
			of:       []Entry{key(counts{"rpm": 5}, counts{"rpm": 5}, nil), edged(used("team", "pro", counts{"rpm": 8}, "org"), counts{"rpm": 4}, nil)},
			seen:     []seen{{entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "pro"}},
			resource: total{counts{"rpm": 8}, 1}, plan: total{counts{"rpm": 8}, 1},
		},
		"a parent of which the highest counted some": {
			of:       []Entry{key(counts{"rpm": 5}, counts{"rpm": 5}, nil), edged(used("team", "pro", counts{"rpm": 8}, "org"), counts{"rpm": 4}, nil)},
			seen:     []seen{{entity: "org", hours: -1, late: counts{"rpm": 4}, plan: "pro"}},
			resource: total{counts{"rpm": 4}, 1}, plan: total{counts{"rpm": 4}, 1},
		},
		"as much back as was used": {
			of:   []Entry{key(counts{"rpm": 0}, counts{"rpm": 0}, nil)},
			seen: []seen{{entity: "team", hours: -1, late: counts{"rpm": 0}, plan: "pro"}},
		},
		"who cascaded into the entity there": {
			of:       []Entry{key(counts{"rpm": 5}, counts{"rpm": 5}, nil)},
			seen:     []seen{{entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "pro", above: []string{"key"}}},
			resource: total{counts{"rpm": 5}, 1}, plan: total{counts{"rpm": 5}, 1},
		},
		"more than 64 bits hold": { // of which nobody knows how much the parent counted
			of:       []Entry{key(counts{"rpm": math.MaxInt64}, counts{"rpm": 5}, nil)},
			seen:     []seen{{entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "pro"}},
			resource: total{counts{"rpm": math.MaxInt64}, 1}, plan: total{counts{"rpm": math.MaxInt64}, 1},
		},
		"more at the full hours than 64 bits hold": {
			of:       []Entry{key(counts{"rpm": 5}, counts{"rpm": math.MaxInt64 - 1}, counts{"rpm": 7})},
			seen:     []seen{{entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "pro"}, {entity: "org", hours: 1, early: counts{"rpm": 5}, plan: "pro"}},
			resource: total{counts{"rpm": math.MinInt64}, 1}, plan: total{counts{"rpm": math.MinInt64}, 1},
		},
		"what is repaired was not used at the full hour": {
			of: []Entry{func() Entry {
				e := key(counts{"rpm": 7}, counts{"rpm": 5}, nil)
				e.Repaired = counts{"rpm": 2}
				return e
			}()},
			seen:     []seen{{entity: "team", hours: -1, late: counts{"rpm": 5}, plan: "pro"}},
			resource: total{counts{"rpm": 2}, 1}, plan: total{counts{"rpm": 2}, 1},
		},
	} {
		for _, window := range []schema.UsageWindow{schema.UsageHourly, schema.UsageDaily} {
			s := NewSums(window, window.Floor(noon))
			for _, e := range c.of {
				s.AddGroups(e)
			}
			look(s, c.seen)
			got := totals(s)
			assert.Equal(t, c.resource, got["resource gpt-4"], "%s, %s", name, window)
			assert.Equal(t, c.plan, got["plan pro"], "%s, %s", name, window)
		}
	}
}

// look tells sums of the hours that they ask for.
func look(s *Sums, all []seen) {
	for _, of := range s.Beyond() {
		for _, by := range all {
			if of.Entity == by.entity && of.Hour.Equal(noon.Add(time.Duration(by.hours)*time.Hour)) {
				u := schema.UsageSnapshot{Hour: of.Hour, Edges: schema.UsageEdges{Early: by.early, Late: by.late}}
				s.LookBeyond(of, schema.UsagePlace{Plan: by.plan, Above: by.above}, u)
			}
		}
	}
}

// TestOnlyWhoDidNotCountIsLookedAtBeyond: who counts what its children use costs nothing more.
func TestOnlyWhoDidNotCountIsLookedAtBeyond(t *testing.T) {
	all := edged(used("key", "pro", counts{"rpm": 9, "tpm": 9}, "team", "org"), counts{"rpm": 5}, counts{"tpm": 5})
	before, after := noon.Add(-time.Hour), noon.Add(time.Hour)
	for name, c := range map[string]struct {
		of    []Entry
		asked func(schema.UsageSeries) bool
		want  []Beyond
	}{
		"nobody above":       {[]Entry{edged(used("key", "pro", counts{"rpm": 9}), counts{"rpm": 9}, nil)}, nil, nil},
		"nothing at an edge": {[]Entry{used("key", "pro", counts{"rpm": 9}, "team")}, nil, nil},
		"each side":          {[]Entry{all}, nil, []Beyond{{"org", "gpt-4", before}, {"org", "gpt-4", after}, {"team", "gpt-4", before}, {"team", "gpt-4", after}}},
		"counted here":       {[]Entry{all, used("team", "pro", counts{"rpm": 9, "tpm": 9})}, nil, nil},
		"counted in part":    {[]Entry{all, used("team", "pro", counts{"rpm": 9})}, nil, []Beyond{{"org", "gpt-4", after}, {"team", "gpt-4", after}}},
		"on another plan":    {[]Entry{all, used("team", "", counts{"rpm": 9, "tpm": 9})}, nil, []Beyond{{"org", "gpt-4", before}, {"org", "gpt-4", after}}},
		"no total asked for": {[]Entry{all}, func(schema.UsageSeries) bool { return false }, nil},
	} {
		s := NewSums(schema.UsageHourly, noon)
		s.Asked = c.asked
		for _, e := range c.of {
			s.AddGroups(e)
		}
		assert.Equal(t, c.want, s.Beyond(), name)
	}
}
