package plan

import "github.com/dynalimit/dynalimit/internal/bucket"

// Promise is what is left of one limit to waiters.
type Promise struct {
	name string
	// Amount is what they are left together, in millitokens.
	Amount int64
	// After is what the limit will hold once each of them has been served, at
	// the instant of the last.
	After bucket.State
}

// Promises are what is left of several limits. They are few: a list is searched faster than a map.
type Promises []Promise

// Of returns the promise of a limit, a zero one for none.
func (p Promises) Of(name string) Promise {
	for i := range p {
		if p[i].name == name {
			return p[i]
		}
	}
	return Promise{}
}

// Wait is how long until need fits beside the promise, in ms from now on, with
// state what the limit holds now; bucket.Never when it cannot. What fits a full
// bucket beside it waits for both; what does not, until those it is made to have
// been served.
func (p Promise) Wait(state bucket.State, now, need int64) int64 {
	switch {
	case p.Amount == 0 || need > state.Burst:
		return state.Wait(now, need)
	case p.Amount <= state.Burst-need:
		return state.Wait(now, need+p.Amount)
	}
	return p.After.Refilled - now + p.After.Wait(p.After.Refilled, need)
}

// farAhead bounds how far a forecast looks, in ms: sums of instants stay in 64
// bits.
const farAhead = 1 << 60

// maxPromise bounds a promise, for the same reason.
const maxPromise = 1 << 62

// Forecast plays how the waiters of a line are served, one after the other.
type Forecast struct {
	// Limits are what has been promised so far.
	Limits Promises
}

// at returns the promise of a limit, of nothing yet if need be.
func (f *Forecast) at(r Reading, name string) *Promise {
	for i := range f.Limits {
		if f.Limits[i].name == name {
			return &f.Limits[i]
		}
	}
	f.Limits = append(f.Limits, Promise{name: name, After: r.Worth(name)})
	return &f.Limits[len(f.Limits)-1]
}

// Wait is how long until all of the amounts fit beside what has been promised,
// in ms; false when they never do.
func (f *Forecast) Wait(r Reading, amounts []Signed) (longest int64, ok bool) {
	for _, a := range amounts {
		wait := f.Limits.Of(a.Name).Wait(r.Worth(a.Name), r.Now, a.Amount)
		if wait == bucket.Never {
			return 0, false
		}
		longest = max(longest, wait)
	}
	return min(longest, farAhead), true
}

// Serve promises the amounts to a waiter, for as soon as they fit.
func (f *Forecast) Serve(r Reading, amounts []Signed) {
	wait, ok := f.Wait(r, amounts)
	if !ok {
		return // nobody can be kept waiting for it
	}
	for _, a := range amounts {
		p := f.at(r, a.Name)
		at := max(p.After.Refilled, r.Now+wait)
		p.After.Tokens, p.After.Refilled = p.After.Level(at)-a.Amount, at
		p.Amount = min(p.Amount+a.Amount, maxPromise)
	}
}
