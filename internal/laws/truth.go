package laws

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// limitNames are the names of all limits.
var limitNames = []string{"rpm", "tpm", "day"}

// truth is the true state of one limit of one bucket: a leaky queue.
type truth struct {
	queue int64
	// surplus is the longest flight of a write with a charge that counts, in ms. fastest is the fastest rate
	// so far.
	surplus int64
	fastest bucket.Rate
	// changes counts the changes of the rate since the bucket was full. The credit of each rate ends at an
	// instant by some process's clock.
	changes int64
	// forgone is the amount that the bucket has less than burst − queue since the last write.
	forgone int64
	// ahead is the true state of prefetching.
	ahead ahead
	// quota means that the limit is a quota. queue is then the usage in the stored window, below 0 if an
	// administrator added to it. mixed means that the limit is or was a quota.
	quota, mixed bool
}

// account has the sums of debits and give-backs of one limit, over all writes. passed is the part that a
// level above counted too, told the pending updates of quotas.
type account struct{ granted, adjusted, back, passed, told int64 }

// noteRate sets r as the limit's fastest rate so far, if it refills faster.
func (t *truth) noteRate(r bucket.Rate) {
	if t.fastest.Period == 0 || isFaster(r, t.fastest) {
		t.fastest = r
	}
}

// isFaster reports whether a refills more tokens a second than b.
func isFaster(a, b bucket.Rate) bool { return a.Amount*b.Period > b.Amount*a.Period }

// ahead is the true state of prefetching for one limit of one bucket.
type ahead struct {
	// queue is the queue of admissions. Prefetched tokens enter it when a call is served.
	queue int64
	// held are the prefetched tokens that processes learnt of, less those admitted or taken off the counter.
	held int64
	// returned are the decreases of the queue in the last horizon, apart from its draining. most is their
	// greatest sum. adjusted are the unrequested charges.
	returned, adjusted recent
	most               int64
}

// recent are amounts of a limit, with their instants.
type recent []struct{ at, amount int64 }

// addAmount appends an amount at an instant, in ms, to r, and drops from r amounts more than horizon ms older.
func (r *recent) addAmount(amount, at, horizon int64) {
	*r = append(*r, struct{ at, amount int64 }{at, amount})
	*r = slices.DeleteFunc(*r, func(one struct{ at, amount int64 }) bool { return at-one.at > horizon })
}

// sumSince returns the sum of the amounts of r at the instant since, in ms, or later.
func (r recent) sumSince(since int64) (sum int64) {
	for _, one := range r {
		if one.at >= since {
			sum += one.amount
		}
	}
	return sum
}

// subtract takes a give-back, or a cut of the burst, off the queue of admissions, keeps it in returned for one
// horizon, and updates most. It does nothing without a horizon, or for 0 or less.
func (a *ahead) subtract(amount, at, horizon int64) {
	if amount <= 0 || horizon == 0 {
		return
	}
	a.queue = max(0, a.queue-amount)
	a.returned.addAmount(amount, at, horizon)
	a.most = max(a.most, a.returned.sumSince(at-horizon))
}

// addAdjust adds an unrequested charge, in millitokens, to the queue of admissions, and keeps it in adjusted
// for one horizon.
func (a *ahead) addAdjust(amount, at, horizon int64) {
	a.queue += amount
	a.adjusted.addAmount(amount, at, horizon)
}
