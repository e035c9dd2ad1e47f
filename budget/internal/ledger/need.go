package ledger

import (
	"maps"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// Need is what must be known to decide about a scope's labels.
type Need struct {
	day        string
	from       string          // first day summed from its shards
	closed     string          // first day taken from the closed totals before from; empty: none
	labels     map[string]bool // whose counters to read
	refs       map[store.Key]bool
	otherScope span  // days counted under the other scope
	Purges     int64 // how often what was counted was removed: nothing known from before holds

	calendar calendar.Calendar
}

// within reports whether o contains everything that n asks for.
func (n Need) within(o Need) bool {
	for l := range n.labels {
		if !o.labels[l] {
			return false
		}
	}
	for r := range n.refs {
		if !o.refs[r] {
			return false
		}
	}
	return n.Purges <= o.Purges && n.day == o.day && n.from >= o.from && (n.closed == "" || o.closed != "" && n.closed >= o.closed) &&
		n.otherScope.within(o.otherScope)
}

// merge asks for what both ask for, so that the apps of one scope share a board.
func (n Need) merge(o Need) Need {
	if n.day != o.day || n.Purges > o.Purges {
		return n
	}
	n.Purges = o.Purges
	labels, refs := maps.Clone(n.labels), maps.Clone(n.refs)
	maps.Copy(labels, o.labels)
	maps.Copy(refs, o.refs)
	n.labels, n.refs = labels, refs
	n.from = min(n.from, o.from)
	if n.closed == "" || o.closed != "" && o.closed < n.closed {
		n.closed = o.closed
	}
	n.otherScope = n.otherScope.join(o.otherScope)
	return n
}

// NeedOf is what must be known to decide about labels. ordering are the labels to decide
// about, known those that any total counts.
func NeedOf(cal calendar.Calendar, scope string, now time.Time, ordering, known []string, limits []Limit) Need {
	day, rule := cal.Day(now), cal.At(now)
	n := Need{day: day, from: day, labels: map[string]bool{}, refs: map[store.Key]bool{}, calendar: cal}
	n.add(ordering...)
	first := day // of this scope that is summed by days
	for _, l := range limits {
		if l.Label == "" {
			n.add(known...)
		} else {
			n.add(l.Label)
		}
		if rule.Counts(l.Kind()) {
			n.refs[l.Ref(scope, day)] = true
		}
		for _, d := range cal.Uncounted(l.Kind(), day) {
			if cal.Of(d).Scope != rule.Scope {
				n.otherScope = n.otherScope.join(span{d, d})
			} else {
				first = min(first, d)
			}
		}
	}
	if first < day {
		n.from = max(first, cal.FirstOpen(day, now))
	}
	if first < n.from {
		n.closed = first
	}
	return n
}

func (n Need) add(labels ...string) {
	for _, label := range labels {
		n.labels[label] = true
	}
}

// span is the days from one to another, both included; none if it is empty.
type span struct{ from, to string }

func (s span) join(o span) span {
	switch {
	case s == span{}:
		return o
	case o == span{}:
		return s
	}
	return span{min(s.from, o.from), max(s.to, o.to)}
}

func (s span) within(o span) bool {
	return s == span{} || o != span{} && o.from <= s.from && s.to <= o.to
}
