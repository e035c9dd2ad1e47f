package lane

import (
	"bytes"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A bucket that was deleted, or expired, and was made again is another one: it
// began full, so that what its predecessor's leases give back would be tokens
// that nobody took from it. Each give-back goes to the incarnation that took,
// and is dropped with it.

// refundsOtherIncarnation reports whether the op gives something back to another
// incarnation of the bucket than the one in the image.
func (o *Op) refundsOtherIncarnation(m *schema.Image) bool {
	return !o.refundDropped && o.GivesBack() && !bytes.Equal(o.incarnation, m.Of())
}

// refundsNeedRead reports whether the bucket must be read before the adjusts give back.
// That is so if the last image shows another incarnation, no bucket, or a bucket without
// one of the limits, because the image may be older than the grant: a transaction's
// answer shows no image.
func (l *Lane) refundsNeedRead(adjusts []*Op) bool {
	if !l.sight.known {
		return false
	}
	for _, o := range adjusts {
		if o.refusals == 0 && o.GivesBack() && (o.refundsOtherIncarnation(l.sight.image) || o.refundsUnknownLimit(l.sight.image)) {
			return true
		}
	}
	return false
}

// refundsUnknownLimit reports whether the op gives back to a limit that the bucket in
// the image does not have.
func (o *Op) refundsUnknownLimit(m *schema.Image) bool {
	return slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool { return a.Amount < 0 && !m.Holds(a.Name) })
}

// dropLostRefunds drops give-backs to a bucket that is gone, and returns the adjusts of
// the bucket that exists. If no image is known, one write gives back to one incarnation
// only, and the others are left for the next write.
func (l *Lane) dropLostRefunds(adjusts []*Op) []*Op {
	if !l.sight.known {
		return l.keepOneIncarnation(adjusts)
	}
	if l.sight.image == nil {
		return adjusts
	}
	kept := adjusts[:0]
	for _, o := range adjusts {
		o.refundDropped = o.refundDropped || o.refundsOtherIncarnation(l.sight.image)
		if o.refundDropped && !o.charges() {
			l.finish(o.asList(), Result{Image: l.sight.image, Now: l.owner.NowMS(), Config: o.cfg})
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

// keepOneIncarnation keeps the adjusts that give back to the same incarnation as the
// first one, and puts the others back into the queue.
func (l *Lane) keepOneIncarnation(adjusts []*Op) []*Op {
	var kept, later []*Op
	for _, o := range adjusts {
		if bytes.Equal(o.incarnation, adjusts[0].incarnation) {
			kept = append(kept, o)
		} else {
			later = append(later, o)
		}
	}
	l.requeue(later)
	return kept
}
