package plan

// Amounts that go to the counter of a limit alone, and not to its tokens.
//
// A limit in shadow is counted and denies nothing. A take that fits the image of its decision is charged,
// even if other processes take meanwhile. One that does not fit goes to the counter alone. So usage beyond
// the limit leaves no debt that would deny for days once the limit is enforced.
//
// A limit may bound the debt from corrections. The charge of an adjust beyond that bound is written down: it
// goes to the counter alone, like usage counted without the bucket.

// splitShadow splits the amounts of limits in shadow into those that fit in addition to the sums and those
// beyond the limit; slots always fit. It leaves out other limits. The rows must include the limits.
func (rows Rows) splitShadow(amounts []Signed) (fits, beyond []Signed) {
	for _, a := range amounts {
		switch r := rows.find(a.Name); {
		case !r.shadow:
		case r.moves != nil: // every open call holds a slot
			fits = append(fits, a)
		case a.Amount <= r.room()-r.Take-r.Adjust:
			fits = append(fits, a)
		default:
			beyond = append(beyond, a)
		}
	}
	return fits, beyond
}

// writeDown moves the amounts that adjusts charge beyond the deepest debt, or beyond a counted limit, from the
// tokens to the counters. It changes the rows in place, and returns the moved amounts.
func (rows Rows) writeDown() (down []Signed) {
	for i := range rows {
		r := &rows[i]
		if !r.bounded || !r.known || r.Adjust == 0 || r.moves != nil {
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

// boundsDebt reports whether the adjusts of the sums charge a limit with a configured deepest debt.
func (rows Rows) boundsDebt() bool {
	for i := range rows {
		if rows[i].maxDebt > 0 && rows[i].Adjust > 0 {
			return true
		}
	}
	return false
}
