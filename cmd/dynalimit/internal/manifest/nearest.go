package manifest

// nearest is the name that a misspelt one was probably meant to be; "" for none.
func nearest(text string, names []string) string {
	best, least := "", 3
	for _, name := range names {
		if n := edits(text, name); n < least && n <= len(name)/2 {
			best, least = name, n
		}
	}
	return best
}

// edits is how many letters are to be changed, added, removed or swapped.
func edits(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	above, before, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := btoi(a[i] != b[j])
			row[j+1] = min(before[j]+cost, before[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above[j-1]+1)
			}
		}
		above, before, row = before, row, above
	}
	return before[len(b)]
}
