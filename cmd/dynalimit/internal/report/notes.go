package report

import "fmt"

// NotesOf returns sentences about windows with incomplete or late counts. It is empty if every
// count is final.
func NotesOf(r Report) (notes []string) {
	open, gaps, unrecorded := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, resource := range r.Resources {
		for _, l := range resource.Limits {
			for _, m := range l.Marks {
				markWindow(open, m.Window, m.Open)
				markWindow(gaps, m.Window, m.hasGap())
				markWindow(unrecorded, m.Window, m.Unrecorded != 0)
			}
		}
	}
	add := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, windowsText(n, r.Window)))
		}
	}
	add(len(open), "More may come in %s: not all of it is counted yet.")
	add(len(gaps), "More was consumed in %s than is counted: a bucket ended while the stream was not read.")
	add(len(unrecorded), "Some of %s was consumed before, while the stream was not read: counters showed it with the next record.")
	return notes
}

// markWindow adds a window to the set in if yes is true.
func markWindow(in map[int]bool, window int, yes bool) {
	if yes {
		in[window] = true
	}
}

// windowsText formats a number of windows: 1 hour, 2 hours.
func windowsText(n int, window string) string {
	if n == 1 {
		return "1 " + window
	}
	return countText(int64(n)) + " " + window + "s"
}
