package lane

import (
	"bytes"
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// batch holds the ops that one write carries.
type batch struct {
	adjusts, takes []*Op
}

// ops returns the adjusts, then the takes.
func (b *batch) ops() []*Op {
	switch {
	case len(b.adjusts) == 0:
		return b.takes
	case len(b.takes) == 0:
		return b.adjusts
	}
	return slices.Concat(b.adjusts, b.takes)
}

// asksOf appends the asks of ops to room.
func asksOf(room []*plan.Ask, ops []*Op) []*plan.Ask {
	for _, o := range ops {
		room = append(room, &o.Ask)
	}
	return room
}

func (b *batch) size() int { return len(b.adjusts) + len(b.takes) }

// markCarried sets the state of the ops: a write carries them.
func (b *batch) markCarried() {
	for _, o := range b.adjusts {
		o.state = opCarried
	}
	for _, o := range b.takes {
		o.state = opCarried
	}
}

// charges reports whether the batch takes anything. A batch that only gives back can be
// written without an image.
func (b *batch) charges() bool {
	return len(b.takes) > 0 || slices.ContainsFunc(b.adjusts, (*Op).charges)
}

func (b *batch) first() *Op {
	if len(b.takes) > 0 {
		return b.takes[0]
	}
	return b.adjusts[0]
}

// config is the configuration for the decision of the batch: that of the takes, or of the last adjust
// if there are no takes.
func (b *batch) config() *plan.Config {
	if len(b.takes) > 0 {
		return b.takes[0].cfg
	}
	return b.adjusts[len(b.adjusts)-1].cfg
}

// refundsUnseen reports whether the image cannot place a give-back. The image shows another incarnation
// or no bucket, lacks the limit, or shows an earlier window of the quota. It may be older than the
// grant, because a transaction's answer shows no image.
func (b *batch) refundsUnseen(image *schema.Image) bool {
	return slices.ContainsFunc(b.adjusts, func(o *Op) bool {
		return o.Refusals == 0 && o.GivesBack() && (o.refundsOtherIncarnation(image) || o.refundsUnknownLimit(image) || o.refundsLaterWindow(image))
	})
}

// adjustsOnly reports whether the batch only adjusts a bucket that a client of this
// library wrote.
func (b *batch) adjustsOnly(known *sight) bool { return len(b.takes) == 0 && known.whole() }

// chargesUnknownLimit reports whether the batch charges a configured limit that the
// image does not have.
func (b *batch) chargesUnknownLimit(image *schema.Image, cfg *plan.Config) bool {
	charges := func(o *Op) bool {
		return slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool {
			return (o.Take || a.Amount > 0) && !image.Holds(a.Name) && cfg.Index(a.Name) >= 0
		})
	}
	return slices.ContainsFunc(b.takes, charges) || slices.ContainsFunc(b.adjusts, charges)
}

// oneIncarnation keeps the adjusts that give back to the same incarnation as the first one. left are
// the others.
func oneIncarnation(adjusts []*Op) (kept, left []*Op) {
	for _, o := range adjusts {
		if bytes.Equal(o.Incarnation, adjusts[0].Incarnation) {
			kept = append(kept, o)
		} else {
			left = append(left, o)
		}
	}
	return kept, left
}

func sameConfig(a, b *plan.Config) bool {
	return a == b || string(a.Fingerprint) == string(b.Fingerprint) && a.Override == b.Override && a.Shadow == b.Shadow
}

// next forms the next batch: all adjusts, and the takes with the same configuration as the first take.
// adjustsOnly leaves out the takes, if there are adjusts. It is false if nothing is queued.
func (q *queue) next(adjustsOnly bool) (batch, bool) {
	if len(q.ops) == 0 {
		return batch{}, false
	}
	var b batch
	for _, o := range q.ops {
		if !o.Take {
			b.adjusts = append(b.adjusts, o)
		}
	}
	if !adjustsOnly || len(b.adjusts) == 0 {
		b.takes = q.nextTakes()
	}
	if len(b.takes) > 1 || q.gather != nil {
		q.starts(len(b.takes))
	}
	return b, true
}

// nextTakes returns the takes with the same configuration as the first one.
func (q *queue) nextTakes() (takes []*Op) {
	for _, o := range q.ops {
		switch {
		case !o.Take || len(takes) > 0 && !sameConfig(takes[0].cfg, o.cfg):
		case len(q.ops) == 1:
			takes = o.asList()
		default:
			takes = append(takes, o)
		}
	}
	return takes
}
