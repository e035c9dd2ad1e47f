package report

import "fmt"

// NotesOf are sentences on what the numbers of a report do not hold.
func NotesOf(r Report) (notes []string) {
	open, gaps, unrecorded := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, resource := range r.Resources {
		for _, l := range resource.Limits {
			for _, m := range l.Marks {
				note(open, m.Window, m.Open)
				note(gaps, m.Window, m.gap())
				note(unrecorded, m.Window, m.Unrecorded != 0)
			}
		}
	}
	add := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, windows(n, r.Window)))
		}
	}
	add(len(open), "More may come in %s: not all of it is counted yet.")
	add(len(gaps), "More was consumed in %s than is counted: a bucket ended while the stream was not read.")
	add(len(unrecorded), "Some of %s was consumed before, while the stream was not read: counters showed it with the next record.")
	return notes
}

func note(in map[int]bool, window int, yes bool) {
	if yes {
		in[window] = true
	}
}

// windows is a number of windows in words: 1 hour, 2 hours.
func windows(n int, window string) string {
	if n == 1 {
		return "1 " + window
	}
	return count(int64(n)) + " " + window + "s"
}
