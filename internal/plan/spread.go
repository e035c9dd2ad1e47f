package plan

// The heads of different processes wait for the same tokens, and would meet at the
// same instant, again and again. Each lane spreads its tries behind that instant, the
// wider the more of them it lost. Everything here is pure; times are in µs.

const (
	// leastSpread and mostSpread bound the spread of a lane that has lost a try.
	leastSpread = second / 100
	mostSpread  = 4 * second
)

// Spread is how long after the exact instant a lane's tries lie on average, in µs. A
// lane that has lost no try has the spread 0 and tries at the exact instant.
type Spread int64

// Lost is the spread after a lost try: at most the waiter's patience, in µs; 0 means
// without end.
func (s Spread) Lost(patience int64) Spread {
	s = min(2*max(s, leastSpread), mostSpread)
	if patience > 0 {
		s = min(s, Spread(patience))
	}
	return s
}

// Won is the spread after a try that won.
func (s Spread) Won() Spread { return s / 2 }

// Behind is how long after the exact instant the next try is made; chance is in [0, 1).
func (s Spread) Behind(chance float64) int64 { return int64(2 * chance * float64(s)) }
