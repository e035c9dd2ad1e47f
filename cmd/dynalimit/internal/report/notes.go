package report

import "fmt"

// NotesOf are sentences on what the numbers of a report do not hold.
func NotesOf(r Report) (notes []string) {
	open, gaps, repaired := map[int]bool{}, map[int]bool{}, map[int]bool{}
	denied := false
	for _, resource := range r.Resources {
		for _, l := range resource.Limits {
			for _, m := range l.Marks {
				note(open, m.Window, m.Open)
				note(gaps, m.Window, m.gap())
				note(repaired, m.Window, m.Repaired != 0)
				denied = denied || m.Denied != 0
			}
		}
	}
	add := func(n int, format string) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, windows(n, r.Window)))
		}
	}
	add(len(open), "More may come in %s: not all of it is counted yet.")
	add(len(gaps), "More was consumed in %s than is counted, as some records never came: 'dynalimit usage repair' books what is missing.")
	add(len(repaired), "Some of %s was booked later, by a repair.")
	if denied {
		notes = append(notes, "Denials are counted as far as processes told of them: best effort.")
	}
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
