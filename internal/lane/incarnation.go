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

// strays reports whether the op gives something back to another bucket than the
// one shown.
func (o *Op) strays(m *schema.Image) bool {
	return !o.forgone && o.GivesBack() && !bytes.Equal(o.incarnation, m.Of())
}

// strays reports whether the last image shows another bucket than one that is
// given back to, or none, or one without a limit that is, and is not known to be
// newer than the grant: a transaction's shows in none.
func (l *Lane) strays(adjusts []*Op) bool {
	if !l.sight.known {
		return false
	}
	for _, o := range adjusts {
		if o.refusals == 0 && o.GivesBack() && (o.strays(l.sight.image) || o.misses(l.sight.image)) {
			return true
		}
	}
	return false
}

// misses reports whether the bucket shown lacks a limit that is given back to.
func (o *Op) misses(m *schema.Image) bool {
	return slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool { return a.Amount < 0 && !m.Holds(a.Name) })
}

// sift drops what is to be given back to a bucket that is gone, and returns the
// adjusts of the one that is there. Where none is known, a write gives back to
// one incarnation, and leaves the others for the next.
func (l *Lane) sift(adjusts []*Op) []*Op {
	if !l.sight.known {
		return l.siftUnseen(adjusts)
	}
	if l.sight.image == nil {
		return adjusts
	}
	kept := adjusts[:0]
	for _, o := range adjusts {
		o.forgone = o.forgone || o.strays(l.sight.image)
		if o.forgone && !o.charges() {
			l.finish(o.alone(), Result{Image: l.sight.image, Now: l.owner.NowMS(), Config: o.cfg})
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

// siftUnseen keeps the adjusts that give back to the bucket of the first.
func (l *Lane) siftUnseen(adjusts []*Op) []*Op {
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

// imageOf is the incarnation of the bucket as last seen, nil for none.
func (l *Lane) imageOf() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.sight.known {
		return nil
	}
	return l.sight.image.Of()
}

// bereft reports whether a batch charges what another incarnation of the bucket
// is owed. One that is gone and has no successor is made again.
func (l *Lane) bereft(b batch) bool {
	if len(b.adjusts) == 0 || b.adjusts[0].charge == nil {
		return false
	}
	owedTo := b.adjusts[0].owedTo
	return owedTo != nil && l.sight.image != nil && !bytes.Equal(owedTo, l.sight.image.Of())
}
