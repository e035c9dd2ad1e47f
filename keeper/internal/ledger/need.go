package ledger

import "maps"

// Need is the day and labels whose sums a decision requires.
type Need struct {
	Day    string
	Labels map[string]bool // labels whose counters to read
}

// NeedOf returns the need for the sums of some labels on a day.
func NeedOf(day string, labels []string) Need {
	n := Need{Day: day, Labels: make(map[string]bool, len(labels))}
	for _, label := range labels {
		n.Labels[label] = true
	}
	return n
}

// isCoveredBy reports whether sums read for o are enough for n: o has the same day and all of n's labels.
func (n Need) isCoveredBy(o Need) bool {
	for l := range n.Labels {
		if !o.Labels[l] {
			return false
		}
	}
	return n.Day == o.Day
}

// merge returns the need for the labels of n and o, so that one query serves the apps of a scope. It returns
// n if the days differ.
func (n Need) merge(o Need) Need {
	if n.Day != o.Day {
		return n
	}
	labels := maps.Clone(n.Labels)
	maps.Copy(labels, o.Labels)
	return Need{Day: n.Day, Labels: labels}
}
