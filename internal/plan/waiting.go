package plan

// The heads of different processes wait for the same tokens, and would meet at the
// same instant, again and again. Each lane spreads its tries behind that instant, the
// wider the more of them it lost. Everything here is pure; times are in µs.

const (
	// leastSpread and mostSpread bound the spread of a lane that has lost a try.
	leastSpread = second / 100
	mostSpread  = 4 * second
)

// Spread is how far behind the exact instant a lane's tries lie on average, in µs; 0,
// that of a lane which has lost none, is exact.
type Spread int64

// Lost is the spread once a try has lost: at most the waiter's patience, in µs, 0 for
// one without end.
func (s Spread) Lost(patience int64) Spread {
	s = min(2*max(s, leastSpread), mostSpread)
	if patience > 0 {
		s = min(s, Spread(patience))
	}
	return s
}

// Won is the spread once a try has won.
func (s Spread) Won() Spread { return s / 2 }

// Behind is how far behind the exact instant the next try is; chance is of [0, 1).
func (s Spread) Behind(chance float64) int64 { return int64(2 * chance * float64(s)) }
