package plan

// The heads of different processes wait for the same tokens and would collide at the same instant, again and
// again. Each lane spreads its tries behind that instant, and wider after each lost try. A loss makes up for
// two wins, so in a crowd two tries of three win. Everything here is pure. Times are in µs unless stated
// otherwise.

const (
	// firstSpread is the spread after the first lost try, mostSpread the longest. Each further lost try
	// multiplies the spread by spreadGrows.
	firstSpread = second / 10
	mostSpread  = 4 * second
	spreadGrows = 4
	// lookSpread is the spread from which a try reads before it writes: with so many rivals it probably
	// loses.
	lookSpread = second / 10
	// lookAge is the age in ms up to which the last answer serves instead of a read.
	lookAge = 10
)

// Spread is the average delay of a lane's tries behind the exact instant, in µs. A lane that has lost no try
// has spread 0 and tries at the exact instant.
type Spread int64

// Lost returns the spread after a lost try. It is at most patience, the waiter's whole wait in µs; 0 means
// no bound.
func (s Spread) Lost(patience int64) Spread {
	s = min(max(spreadGrows*s, firstSpread), mostSpread)
	if patience > 0 {
		s = min(s, Spread(patience))
	}
	return s
}

// Won returns the spread after a try that won.
func (s Spread) Won() Spread { return s / 2 }

// Behind returns the delay of the next try behind the exact instant; chance is in [0, 1).
func (s Spread) Behind(chance float64) int64 { return int64(2 * chance * float64(s)) }

// Looks reports whether a try reads the bucket before it writes, given the age of the last answer in ms.
func (s Spread) Looks(age int64) bool { return s >= lookSpread && age >= lookAge }
