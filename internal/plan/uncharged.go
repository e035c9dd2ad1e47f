package plan

// Amounts that go to the counter of a limit alone, and not to its tokens.
//
// A limit in shadow is counted and denies nothing. A take that fits what its decision saw is
// charged, whoever else takes meanwhile; one that does not goes to the counter alone. So what is
// used beyond the limit leaves no debt behind that would deny for days once it is enforced.
//
// A limit may say how far corrections may take it below 0. What an adjust charges beyond that is
// written down: it goes to the counter alone, as what was counted without the bucket does.

// shadowed splits the amounts of limits in shadow into those that fit beside the sums and those beyond
// the limit. The rows have the limits.
func (rows Rows) shadowed(amounts []Signed) (fits, beyond []Signed) {
	for _, a := range amounts {
		switch r := rows.find(a.Name); {
		case !r.shadow:
		case a.Amount <= r.room()-r.out():
			fits = append(fits, a)
		default:
			beyond = append(beyond, a)
		}
	}
	return fits, beyond
}

// writeDown moves the amounts that adjusts charge beyond the deepest debt from the tokens to the
// counters. It returns them, nil for none.
func (rows Rows) writeDown() (down []Signed) {
	for i := range rows {
		r := &rows[i]
		if !r.bounded || !r.known || r.Adjust == 0 {
			continue
		}
		if beyond := min(r.Adjust, r.Adjust-(r.room()-r.Take+r.maxDebt)); beyond > 0 {
			r.Adjust -= beyond
			r.Late += beyond
			down = append(down, Signed{Name: r.Name, Amount: beyond})
		}
	}
	return down
}

// boundsDebt reports whether the sums charge a limit whose debt is bounded.
func (rows Rows) boundsDebt() bool {
	for i := range rows {
		if rows[i].maxDebt > 0 && rows[i].Adjust > 0 {
			return true
		}
	}
	return false
}
