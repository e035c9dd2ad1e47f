package plan

// A limit may say how far corrections may take it below 0. What an adjust charges beyond that is
// written down: it goes to the counter alone, as what was counted without the bucket does.

// WriteDown moves what adjusts charge beyond the deepest debt from the tokens to the counters. It
// returns the sums, which are changed, and what was written down, nil for nothing.
func (v View) WriteDown(s Sums) (written Sums, down []Signed) {
	for i := range s {
		most, bounded := v.Config.maxDebt(s[i].Name)
		bounded = bounded || v.Config.counts(s[i].Name) // what does not fit is counted only
		if !bounded || s[i].Adjust == 0 {
			continue
		}
		n := v.windowed(s[i])
		room, known := v.Room(n.Name, n.Back)
		beyond := min(n.Adjust, n.Adjust-(room-n.Take+most))
		if !known || beyond <= 0 {
			continue
		}
		s[i].Adjust -= beyond
		s[i].Late += beyond
		down = append(down, Signed{Name: n.Name, Amount: beyond})
	}
	return s, down
}

// BoundsDebt reports whether the sums charge a limit whose debt is bounded.
func (c *Config) BoundsDebt(s Sums) bool {
	for _, n := range s {
		if _, bounded := c.maxDebt(n.Name); bounded && n.Adjust > 0 {
			return true
		}
	}
	return false
}
