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

// refundsOtherIncarnation reports whether the op gives something back to another bucket than the
// one shown.
func (o *Op) refundsOtherIncarnation(m *schema.Image) bool {
	return !o.refundDropped && o.GivesBack() && !bytes.Equal(o.incarnation, m.Of())
}

// refundsNeedRead reports whether the last image shows another bucket than one that is
// given back to, or none, or one without a limit that is, and is not known to be
// newer than the grant: a transaction's shows in none.
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

// refundsUnknownLimit reports whether the bucket shown lacks a limit that is given back to.
func (o *Op) refundsUnknownLimit(m *schema.Image) bool {
	return slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool { return a.Amount < 0 && !m.Holds(a.Name) })
}

// dropLostRefunds drops what is to be given back to a bucket that is gone, and returns the
// adjusts of the one that is there. Where none is known, a write gives back to
// one incarnation, and leaves the others for the next.
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

// keepOneIncarnation keeps the adjusts that give back to the bucket of the first.
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

// incarnation is the incarnation of the bucket as last seen, nil for none.
func (l *Lane) incarnation() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sight.known {
		return nil
	}
	return l.sight.image.Of()
}

// owedByOtherIncarnation reports whether a batch charges what another incarnation of the bucket
// is owed. One that is gone and has no successor is made again.
func (l *Lane) owedByOtherIncarnation(b batch) bool {
	if len(b.adjusts) == 0 || b.adjusts[0].charge == nil {
		return false
	}
	owedTo := b.adjusts[0].owedTo
	return owedTo != nil && l.sight.image != nil && !bytes.Equal(owedTo, l.sight.image.Of())
}
