package plan

// The heads of different processes wait for the same tokens, and would meet at the
// same instant, again and again. Each lane spreads its tries behind that instant, the
// wider the more of them it lost. A loss makes up for two wins, so in a crowd two tries of
// three win. Everything here is pure; times are in µs unless they say otherwise.

const (
	// firstSpread is the spread of a lane that has lost its first try, mostSpread the longest.
	// spreadGrows is what each further try that loses makes of it.
	firstSpread = second / 10
	mostSpread  = 4 * second
	spreadGrows = 4
	// lookSpread is the spread from which a try looks before it writes: so many others try
	// that it probably loses.
	lookSpread = second / 10
	// lookAge is for how long, in ms, an answer is as good as a look.
	lookAge = 10
)

// Spread is how long after the exact instant a lane's tries lie on average, in µs. A
// lane that has lost no try has the spread 0 and tries at the exact instant.
type Spread int64

// Lost is the spread after a lost try: at most the waiter's patience, in µs; 0 means
// without end.
func (s Spread) Lost(patience int64) Spread {
	s = min(max(spreadGrows*s, firstSpread), mostSpread)
	if patience > 0 {
		s = min(s, Spread(patience))
	}
	return s
}

// Won is the spread after a try that won.
func (s Spread) Won() Spread { return s / 2 }

// Behind is how long after the exact instant the next try is made; chance is in [0, 1).
func (s Spread) Behind(chance float64) int64 { return int64(2 * chance * float64(s)) }

// Looks reports whether a try looks at the bucket before it writes, if the last answer came
// so many ms ago.
func (s Spread) Looks(age int64) bool { return s >= lookSpread && age >= lookAge }
