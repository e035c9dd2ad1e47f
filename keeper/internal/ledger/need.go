package ledger

import "maps"

// Need is the day and labels whose sums a decision requires.
type Need struct {
	Day    string
	Labels map[string]bool // labels whose counters to read
}

// NeedOf returns the need for the sums of the given labels on a day such as 20260123.
func NeedOf(day string, labels []string) Need {
	n := Need{Day: day, Labels: make(map[string]bool, len(labels))}
	for _, label := range labels {
		n.Labels[label] = true
	}
	return n
}

// isCoveredBy reports whether o has n's day and all labels of n, so that sums read for o are enough for n.
func (n Need) isCoveredBy(o Need) bool {
	for l := range n.Labels {
		if !o.Labels[l] {
			return false
		}
	}
	return n.Day == o.Day
}

// merge returns a need with n's day and the labels of both, so that one query serves several apps of a scope.
// It returns n if the days differ, and changes neither.
func (n Need) merge(o Need) Need {
	if n.Day != o.Day {
		return n
	}
	labels := maps.Clone(n.Labels)
	maps.Copy(labels, o.Labels)
	return Need{Day: n.Day, Labels: labels}
}
