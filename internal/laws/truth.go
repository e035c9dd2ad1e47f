package laws

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// limitNames are all the limits that there are.
var limitNames = []string{"rpm", "tpm", "day"}

// truth is one limit of one bucket as it really is: a leaky queue.
type truth struct {
	queue int64
	// surplus is the longest time, in ms, that a write was under way whose
	// charge counts, fastest the fastest rate held.
	surplus int64
	fastest bucket.Rate
	// changes are those of the rate since the bucket was full: what was earned at each rate
	// ends at an instant that somebody's clock says.
	changes int64
	// forgone is what the last write left the bucket short of burst − queue.
	forgone int64
	// ahead is what is debited ahead.
	ahead ahead
	// quota says that the limit is one: then queue is what is used in the stored window, below 0
	// if an administrator added to it. mixed says that it is or was one.
	quota, mixed bool
}

// account is what was debited of and given back to one limit, over all writes, and what of
// that a level above counted too.
// told is what it was told of quotas beside them.
type account struct{ granted, adjusted, back, passed, told int64 }

// hold remembers the fastest rate.
func (t *truth) hold(r bucket.Rate) {
	if t.fastest.Period == 0 || quicker(r, t.fastest) {
		t.fastest = r
	}
}

// quicker reports whether a refills faster than b.
func quicker(a, b bucket.Rate) bool { return a.Amount*b.Period > b.Amount*a.Period }

// ahead is what is debited ahead of calls of one limit of one bucket, as it really is.
type ahead struct {
	// queue is that of admissions: what is debited ahead is in it once a call was
	// served.
	queue int64
	// held is what processes were told they debited ahead, and neither admitted nor
	// took off the counter.
	held int64
	// returned is what left the queue otherwise than by time, of the last horizon; most
	// is how much that was at most. adjusted is what was charged without being asked
	// for.
	returned, adjusted recent
	most               int64
}

// recent are amounts of a limit, with their instants.
type recent []struct{ at, amount int64 }

// add adds an amount, and forgets what is older than a horizon.
func (r *recent) add(amount, at, horizon int64) {
	*r = append(*r, struct{ at, amount int64 }{at, amount})
	*r = slices.DeleteFunc(*r, func(one struct{ at, amount int64 }) bool { return at-one.at > horizon })
}

// sum is what was added since an instant.
func (r recent) sum(since int64) (sum int64) {
	for _, one := range r {
		if one.at >= since {
			sum += one.amount
		}
	}
	return sum
}

// returns books what was given back, or cut off the burst: while tokens are held, it
// makes room that the queue of admissions may not have needed.
func (a *ahead) returns(amount, at, horizon int64) {
	if amount <= 0 || horizon == 0 {
		return
	}
	a.queue = max(0, a.queue-amount)
	a.returned.add(amount, at, horizon)
	a.most = max(a.most, a.returned.sum(at-horizon))
}

// adjusts books what was charged without being asked for.
func (a *ahead) adjusts(amount, at, horizon int64) {
	a.queue += amount
	a.adjusted.add(amount, at, horizon)
}
