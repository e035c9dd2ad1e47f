package laws

import (
	"context"
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// stake is the effect of one lease's calls in the store, as the judge sees it. It travels in the contexts of
// the calls.
type stake struct {
	// lots are by bucket, incarnation and limit.
	lots map[lot]*stakeLot
	// wrong are the errors of its calls, as far as their own writes show them. A pending update covers many
	// leases at once, and shows nothing.
	wrong []string
	// held returns the state of the lease at each of its buckets. It is nil if the acquire failed.
	held func() []call.Held
	// into is the stake that this one became part of.
	into *stake
	// inWindow is the sum taken in each window of a quota, or of a token bucket, less its give-backs.
	inWindow map[windowLot]int64
}

// windowLot is a window of one limit; "" is the window of a token bucket.
type windowLot struct {
	entity        string
	incarnation   int
	limit, window string
	// span selects the part of the window: since the last of a number of changes of the limit.
	span    span
	changes int
}

// span is a part of a window.
type span uint8

const (
	inAll  span = iota
	inLife      // since the kind or the unit changed
	inZone      // since the kind, the unit or the zone changed
)

// isDegraded reports whether the outage policy admitted a part of the lease without its bucket. Its debits in
// the store are then not exact.
func (s *stake) isDegraded() bool {
	return s.held != nil && anyDegraded(s.held())
}

// anyDegraded reports whether a level was admitted without its bucket.
func anyDegraded(levels []call.Held) bool {
	return slices.ContainsFunc(levels, func(l call.Held) bool { return l.Degraded })
}

type lot struct {
	entity      string
	incarnation int
	limit       string
}

// stakeLot counts one limit: the debits for the lease and its give-backs. told is the part of the debits that
// its process learnt of, and left the part of told without a lease. An unanswered try that is decided again
// may land late. It counts, and belongs to no lease.
type stakeLot struct{ debited, told, left, back int64 }

type stakeKey struct{}

// withStake returns a context with a new, empty stake, for the calls of one lease. The stake gets the sums of
// their debits and give-backs.
func withStake(ctx context.Context) (context.Context, *stake) {
	s := &stake{lots: map[lot]*stakeLot{}, inWindow: map[windowLot]int64{}}
	return s.withContext(ctx), s
}

// withContext returns a context for calls of the stake's lease, so that the oracle counts their writes in the
// stake.
func (s *stake) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, stakeKey{}, s)
}

// stakeOf returns the stake that a context carries; nil without one.
func stakeOf(ctx context.Context) *stake {
	s, _ := ctx.Value(stakeKey{}).(*stake)
	return s
}

// wholeStake returns the stake into which s was merged, directly or through others, or s itself if it was not
// merged.
func (s *stake) wholeStake() *stake {
	for s.into != nil {
		s = s.into
	}
	return s
}

// lotFor returns the stake's sums of one limit in one incarnation of a bucket. It adds empty ones at the first
// use.
func (s *stake) lotFor(k lot) *stakeLot {
	if s.lots[k] == nil {
		s.lots[k] = &stakeLot{}
	}
	return s.lots[k]
}

// part is one call's part of a write: signed, as in an adjust.
type part struct {
	stake   *stake
	amounts []plan.Signed
}

// partOf returns the stake of an op's caller and the amounts that the op's write carries, in millitokens.
func partOf(o *lane.Op) part {
	return part{stake: stakeOf(o.CallersContext()), amounts: o.Written()}
}

// checkHoldings returns the violations in a lease's holdings: held tokens that were not debited, and debits
// that the lease neither knows nor may have given back. Limits in gone, and give-backs in owed, are excused. It
// returns nil if the outage policy admitted a level.
func (s *stake) checkHoldings(levels []call.Held, gone map[string]bool, owed map[string]int64) (wrong []string) {
	if anyDegraded(levels) {
		return nil
	}
	net, told, left := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for k, v := range s.lots {
		net[k.entity+"#"+k.limit] += v.debited - v.back
		told[k.entity+"#"+k.limit] += v.told - v.back
		left[k.entity+"#"+k.limit] += v.left
	}
	held, known := heldBy(levels)
	for key, n := range held {
		if net[key] < n {
			wrong = append(wrong, fmt.Sprintf("L3: a lease holds %d of %s, debited for it are %d", n, key, net[key]))
		}
	}
	for key, n := range told {
		if !gone[key] && n > known[key]+left[key]+owed[key] {
			wrong = append(wrong, fmt.Sprintf("L3: debited for a lease are %d of %s, of which it knows %d", n, key, known[key]))
		}
	}
	return wrong
}

// heldBy returns two maps by bucket and limit, in millitokens. One has the amounts that a lease surely holds,
// the other all that it knows, with doubtful and vain ones.
func heldBy(levels []call.Held) (held, known map[string]int64) {
	held, known = map[string]int64{}, map[string]int64{}
	for _, level := range levels {
		for _, h := range level.Holdings {
			key := bucketOfLane(level.Lane) + "#" + h.Name
			held[key] += h.Held
			known[key] += h.Used() + h.Vain
		}
	}
	return held, known
}

// countedBy returns the millitokens that a lease took in ended windows of quotas or used without the bucket, by
// bucket and limit.
func countedBy(levels []call.Held) map[string]int64 {
	counted := map[string]int64{}
	for _, level := range levels {
		for _, h := range level.Holdings {
			counted[bucketOfLane(level.Lane)+"#"+h.Name] += h.Counted
		}
	}
	return counted
}
