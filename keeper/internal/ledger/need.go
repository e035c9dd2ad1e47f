package ledger

import "maps"

// Need is what must be known to decide about a scope's labels.
type Need struct {
	Day    string
	Labels map[string]bool // whose counters to read
}

// NeedOf is what must be known to decide about labels on a day.
func NeedOf(day string, labels []string) Need {
	n := Need{Day: day, Labels: make(map[string]bool, len(labels))}
	for _, label := range labels {
		n.Labels[label] = true
	}
	return n
}

// within reports whether o contains everything that n asks for.
func (n Need) within(o Need) bool {
	for l := range n.Labels {
		if !o.Labels[l] {
			return false
		}
	}
	return n.Day == o.Day
}

// merge asks for what both ask for, so that the apps of one scope share a board.
func (n Need) merge(o Need) Need {
	if n.Day != o.Day {
		return n
	}
	labels := maps.Clone(n.Labels)
	maps.Copy(labels, o.Labels)
	return Need{Day: n.Day, Labels: labels}
}
