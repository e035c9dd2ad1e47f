package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// A bucket may be deleted after its ttl. The ttl lies beyond the time at which every limit is full again,
// because a new bucket begins full.

const (
	// ttlFills is the distance of an expiry, in times of the longest fill.
	ttlFills = 7
	// minTTLSeconds is the least distance of an expiry.
	minTTLSeconds = 3600
	// maxTTLSeconds is the greatest distance of an expiry. A slower bucket has no ttl.
	maxTTLSeconds = 50 * 365 * 24 * 3600
)

// Expiry returns the ttl of a bucket made at now with these limits; 0 for no ttl.
func Expiry(now int64, limits []schema.Change) int64 {
	longest := int64(0)
	for i := range limits {
		longest = max(longest, limits[i].To.Rate.FillTime(-limits[i].Put))
	}
	return expiry(now, longest)
}

// expiry returns the ttl of a bucket with a slowest fill of fill ms; 0, for no ttl, if that is too far ahead.
func expiry(now, fill int64) int64 {
	seconds := fill/1000 + 1
	if seconds > maxTTLSeconds/ttlFills {
		return 0
	}
	return now/1000 + 1 + max(minTTLSeconds, ttlFills*seconds)
}

// spendExpiry returns the earliest expiry, in seconds, that the change of a limit may leave: every limit must
// be full again before the item can be deleted. A charge without a lower bound gets one, the deepest debt
// that the expiry covers. later means that the tokens may already include part of the credit, so the credit
// does not count. ok is false if the expiry must move.
func (v View) spendExpiry(r *Row, c *change, later bool) (seconds int64, ok bool) {
	if r.moves != nil {
		if !c.Slots.IsHolding() {
			return 0, true
		}
		seconds = firstSecondAfter(v.Now, r.state.FillTime(0))
		return seconds, v.Image.TTL == 0 || v.Image.TTL >= seconds
	}
	if c.out == 0 {
		return 0, true // gives back: fuller sooner
	}
	rate, ttl := r.state.Rate, v.Image.TTL
	if !c.HasLow {
		if ttl == 0 {
			return firstSecondAfter(v.Now, rate.FillTime(-c.levelAfter(r.state.Tokens))), true
		}
		covered := min(MaxDebt, rate.DebtCovered(ttl*1000-v.Now))
		floor := c.lowestFor(covered)
		if later {
			floor = c.out - covered
		}
		if covered < 0 || r.state.Tokens < floor {
			return 0, false
		}
		c.raiseLow(floor)
		return ttl, true
	}
	seconds = firstSecondAfter(v.Now, rate.FillTime(max(0, -c.levelAfter(c.Low)))) // of the deepest debt
	return seconds, ttl == 0 || ttl >= seconds
}

// firstSecondAfter returns the first whole second at or after now + ms.
func firstSecondAfter(now, ms int64) int64 {
	if ms > maxTTLSeconds*1000 {
		ms = maxTTLSeconds * 1000
	}
	return (now + ms + 999) / 1000
}
