package plan

import "github.com/dynalimit/dynalimit/internal/bucket"

// Promise is the amount of one limit that a take must leave to waiters.
type Promise struct {
	name string
	// Amount is the sum of the waiters' amounts, in millitokens.
	Amount int64
	// After is the state of the limit once the last of them has been served, at the instant At.
	After bucket.State
	At    int64
	// Reserved is the part of Amount that a waiter of another process has reserved until an instant, in Unix ms.
	// Then it is free, unless the waiter has taken it.
	Reserved, Until int64
}

// Promises are the promises of several limits. They are few, so a list is searched faster than a map.
type Promises []Promise

// Of returns the promise of a limit, a zero one for a limit without one.
func (p Promises) Of(name string) Promise {
	for i := range p {
		if p[i].name == name {
			return p[i]
		}
	}
	return Promise{}
}

// Wait returns the time in ms from now until need fits in addition to the promise; bucket.Never if it never
// does. state is the limit's present state. If a full bucket covers both, the wait is for both, else it ends
// after the waiters; a reserved part gets free at its end.
func (p Promise) Wait(state bucket.State, now, need int64) int64 {
	if p.Reserved > 0 {
		free := p
		free.Amount, free.Reserved, free.After.Tokens = p.Amount-p.Reserved, 0, p.After.Tokens+p.Reserved
		kept := p
		kept.Reserved = 0
		unreserved, reserved := free.Wait(state, now, need), kept.Wait(state, now, need)
		if unreserved == bucket.Never {
			return bucket.Never
		}
		if unreserved = max(unreserved, p.Until-now); reserved == bucket.Never {
			return unreserved
		}
		return min(unreserved, reserved)
	}
	switch {
	case p.Amount == 0:
		return state.Wait(now, need)
	case need > state.Burst: // only a grant to a quota makes room for it
		return state.Wait(now, bucket.SaturatingAdd(need, p.Amount))
	case p.Amount <= state.Burst-need:
		return state.Wait(now, need+p.Amount)
	}
	return p.At - now + p.After.Wait(p.At, need)
}

// farAhead bounds the waits of a forecast, in ms, so that sums of instants stay within 64 bits.
const farAhead = 1 << 60

// maxPromise bounds a promise, for the same reason.
const maxPromise = 1 << 62

// Forecast computes how the waiters of a line will be served, one after the other.
type Forecast struct {
	// Limits are the promises so far.
	Limits Promises
}

// promiseOf returns a pointer to the promise of a limit, valid until another limit is added. It adds an empty
// one for a new limit, with the state of the reading.
func (f *Forecast) promiseOf(r Reading, name string) *Promise {
	for i := range f.Limits {
		if f.Limits[i].name == name {
			return &f.Limits[i]
		}
	}
	f.Limits = append(f.Limits, Promise{name: name, After: r.Worth(name), At: r.Now})
	return &f.Limits[len(f.Limits)-1]
}

// Wait returns the time in ms until the amounts, with a batch call's reserve, fit in addition to the promises;
// false if they never do. Limits in shadow do not count, and the time is bounded by farAhead.
func (f *Forecast) Wait(r Reading, amounts []Signed) (longest int64, ok bool) {
	for _, a := range r.Config.Enforced(amounts) {
		wait := f.Limits.Of(a.Name).Wait(r.Worth(a.Name), r.Now, a.Amount+r.Kept(a.Name))
		if wait == bucket.Never {
			return 0, false
		}
		longest = max(longest, wait)
	}
	return min(longest, farAhead), true
}

// Serve adds a waiter's amounts to the promises, and moves each limit's After and At to the instant at which
// all of them fit. It does nothing if they never fit.
func (f *Forecast) Serve(r Reading, amounts []Signed) {
	wait, ok := f.Wait(r, amounts)
	if !ok {
		return // it never fits, so no waiter waits for it
	}
	for _, a := range amounts {
		p := f.promiseOf(r, a.Name)
		p.At = max(p.At, r.Now+wait)
		p.After = p.After.At(p.At)
		p.After.Tokens -= a.Amount
		p.Amount = min(p.Amount+a.Amount, maxPromise)
	}
}

// PromiseReserved adds to the promises the amounts that a waiter of another process has reserved, up to the end
// of the reservation. It leaves out amounts above the burst, and reservations of lane, the own lane's id.
func (f *Forecast) PromiseReserved(r Reading, lane uint32) {
	n := r.reservation(lane)
	if n == nil {
		return
	}
	for i, name := range r.Image.Set.Names {
		if i < len(n.Needs) && n.Needs[i] > 0 && n.Needs[i] <= r.Worth(name).Burst {
			p := f.promiseOf(r, name)
			p.Amount, p.Reserved, p.Until = p.Amount+n.Needs[i], n.Needs[i], n.Until
			p.After.Tokens -= n.Needs[i]
		}
	}
}

// PromiseBehind takes amounts, summed by limit, of the waiters behind those of the forecast off the tokens
// after each promise. If leaves is true, it also adds them to the promised amounts, which a take must leave.
func (f *Forecast) PromiseBehind(r Reading, sums []Signed, leaves bool) {
	for _, a := range sums {
		if a.Amount <= 0 {
			continue
		}
		p := f.promiseOf(r, a.Name)
		if p.After = p.After.At(p.At); leaves {
			p.Amount = min(p.Amount+a.Amount, maxPromise)
		}
		p.After.Tokens = bucket.SaturatingAdd(p.After.Tokens, -a.Amount)
	}
}
