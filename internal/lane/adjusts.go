package lane

import (
	"bytes"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// dropLostRefunds drops give-backs to a bucket that is gone. If no image is known, one
// write gives back to one incarnation only, and the others are left for the next write.
func (t *decision) dropLostRefunds() {
	if !t.known.known {
		var later []*Op
		first := t.adjusts[0]
		t.adjusts, later = splitOps(t.adjusts, func(o *Op) bool { return bytes.Equal(o.Incarnation, first.Incarnation) })
		t.again = append(t.again, later...)
		return
	}
	image := t.known.image
	if image == nil {
		return
	}
	kept := t.adjusts[:0]
	for _, o := range t.adjusts {
		o.RefundDropped = o.RefundDropped || o.refundsOtherIncarnation(image)
		if o.RefundDropped && !o.charges {
			t.endOps(o.asList(), Result{Image: image, Now: t.now, Config: o.cfg})
			continue
		}
		kept = append(kept, o)
	}
	t.adjusts = kept
}

// limitAdjusts keeps as many adjusts, in their order, as one write can carry. The others go back into
// the queue. One write gives back tokens of one window of a quota only. Ordinals do not show which
// window has ended if the unit or the kind changed in between.
func (t *decision) limitAdjusts() {
	sums := make(plan.Rows, 0, 4)
	for i, o := range t.adjusts {
		if i > 0 && (sums.Overflows(o.Amounts) || sums.OfOtherWindows(o.Amounts)) {
			t.again = append(t.again, t.adjusts[i:]...)
			t.adjusts = t.adjusts[:i]
			return
		}
		o.AddTo(&sums)
	}
}

// planGiveBack plans a write that only gives tokens back. It skips limits that the bucket no longer has.
// It returns false if nothing is left, or if the bucket is gone. sure is the latest time that has surely
// passed.
func (t *decision) planGiveBack(sure func() int64) bool {
	g := &schema.GiveBack{Incarnation: t.adjusts[0].Incarnation}
	v := plan.View{Config: t.cfg}
	if t.known.known {
		v.Image = t.known.image
		g.Set = t.known.hint()
	}
	v.Now = plan.DecidedAt(v.Image, v.Config, sure, t.now)
	var room [8]*plan.Ask
	rows := v.Sums(asksOf(room[:0], t.adjusts), t.room[:0])
	for i := range rows {
		if l, ok := rows[i].GivenBack(t.known.known); ok {
			g.Limits = append(g.Limits, l)
		}
	}
	if len(g.Limits) == 0 {
		t.endOps(t.adjusts, Result{Image: t.known.image, Now: v.Now, Config: v.Config})
		return false
	}
	t.view = v
	t.move = move{rows: rows, carried: t.adjusts, write: plan.Write{Kind: plan.GiveBack, GiveBack: g}}
	return true
}
