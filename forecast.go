package dynalimit

import "github.com/dynalimit/dynalimit/internal/bucket"

// promise is what is left of one limit to waiters, in millitokens.
type promise struct {
	name   string
	amount int64
	// after is what the limit will hold once each of them has been served, at
	// the instant of the last.
	after bucket.State
}

// promises are few: a list is searched faster than a map.
type promises []promise

// of returns the promise of a limit, a zero one for none.
func (p promises) of(name string) promise {
	for i := range p {
		if p[i].name == name {
			return p[i]
		}
	}
	return promise{}
}

// wait is how long until need fits beside the promise, in ms from now on, with
// state what the limit holds now; bucket.Never when it cannot. What fits a full
// bucket beside it waits for both; what does not, until those it is made to have
// been served.
func (p promise) wait(state bucket.State, now, need int64) int64 {
	switch {
	case p.amount == 0 || need > state.Burst:
		return state.Wait(now, need)
	case p.amount <= state.Burst-need:
		return state.Wait(now, need+p.amount)
	}
	return p.after.Refilled - now + p.after.Wait(p.after.Refilled, need)
}

// farAhead bounds how far a forecast looks, in ms: sums of instants stay in 64
// bits.
const farAhead = 1 << 60

// maxPromise bounds a promise, for the same reason.
const maxPromise = 1 << 62

// forecast plays how the waiters of a line are served, one after the other.
type forecast struct {
	limits promises
}

// at returns the promise of a limit, of nothing yet if need be.
func (f *forecast) at(r reading, name string) *promise {
	for i := range f.limits {
		if f.limits[i].name == name {
			return &f.limits[i]
		}
	}
	f.limits = append(f.limits, promise{name: name, after: r.worth(name)})
	return &f.limits[len(f.limits)-1]
}

// wait is how long until all of the amounts fit beside what has been promised,
// in ms; false when they never do.
func (f *forecast) wait(r reading, amounts []signed) (longest int64, ok bool) {
	for _, a := range amounts {
		wait := f.limits.of(a.name).wait(r.worth(a.name), r.now, a.amount)
		if wait == bucket.Never {
			return 0, false
		}
		longest = max(longest, wait)
	}
	return min(longest, farAhead), true
}

// serve promises the amounts to a waiter, for as soon as they fit.
func (f *forecast) serve(r reading, amounts []signed) {
	wait, ok := f.wait(r, amounts)
	if !ok {
		return // nobody can be kept waiting for it
	}
	for _, a := range amounts {
		p := f.at(r, a.name)
		at := max(p.after.Refilled, r.now+wait)
		p.after.Tokens, p.after.Refilled = p.after.Level(at)-a.amount, at
		p.amount = min(p.amount+a.amount, maxPromise)
	}
}
