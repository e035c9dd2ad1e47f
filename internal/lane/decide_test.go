package lane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Callers come first: what is debited ahead is decided last, and not at all when one
// of them does not fit, waits, or was refused.
func TestChooseDebitsAheadLast(t *testing.T) {
	cfg := rpmOf(100)
	now := time.Now().UnixMilli()
	op := func(n int64) *Op {
		return NewTake(t.Context(), []plan.Signed{{Name: "rpm", Amount: n * token}}, cfg)
	}
	debit := func(n int64) *Op {
		o := op(n)
		o.ahead = true
		return o
	}
	for name, c := range map[string]struct {
		tokens int64
		takes  []*Op
		halved int
		adopt  plan.Standing
		want   bool
	}{
		"half is left":       {90, []*Op{debit(30), op(10)}, 0, plan.Current, true},
		"half is not left":   {90, []*Op{debit(31), op(10)}, 0, plan.Current, false},
		"alone":              {90, []*Op{debit(40)}, 0, plan.Current, true},
		"alone, of little":   {90, []*Op{debit(41)}, 0, plan.Current, false},
		"a call is left out": {90, []*Op{debit(1), op(91)}, 0, plan.Current, false},
		"others are faster":  {90, []*Op{debit(1), op(1)}, 1, plan.Current, false},
		"limits change":      {90, []*Op{debit(1), op(1)}, 0, plan.Newer, false},
	} {
		t.Run(name, func(t *testing.T) {
			image := imageOf(cfg, c.tokens*token, now)
			d := choose(&sight{known: true, image: image}, plan.NewView(image, cfg, c.adopt, now), choices{takes: c.takes, shareHalvings: c.halved})
			assert.Equal(t, c.want, len(d.dropped) == 0)
			for _, o := range d.dropped {
				assert.NotContains(t, d.carried, o)
			}
			if len(d.admitted) > 1 {
				assert.True(t, d.admitted[len(d.admitted)-1].ahead, "after the calls")
			}
		})
	}
	refusedOnce := op(1)
	refusedOnce.refusals = 1
	image := imageOf(cfg, 90*token, now)
	d := choose(&sight{known: true, image: image}, plan.NewView(image, cfg, plan.Current, now), choices{takes: []*Op{refusedOnce, debit(1)}})
	assert.Len(t, d.dropped, 1, "a call that was refused")
}

// A turn ends what cannot be carried, whatever else it carries: a take of a limit that is gone,
// and an adjust into a debt that cannot be stored.
func TestTurnEndsWhatCannotBeCarried(t *testing.T) {
	cfg := rpmOf(100)
	image := imageOf(cfg, -plan.MaxDebt+5*token, 1000)
	gone := NewTake(t.Context(), []plan.Signed{{Name: "tpm", Amount: token}}, cfg)
	deep, fits := NewAdjust(t.Context(), rpm(6), nil, cfg), NewAdjust(t.Context(), rpm(5), nil, cfg)
	f := facts{takes: []*Op{gone}, adjusts: []*Op{deep, fits}, view: plan.NewView(image, cfg, plan.Current, 1000), known: sight{known: true, image: image}}
	for _, o := range f.adjusts {
		o.addTo(&f.sums)
	}
	d := decide(f)
	reasons := map[*Op]Reason{}
	for _, e := range d.ends {
		var why *Failure
		require.ErrorAs(t, e.result.Err, &why)
		reasons[e.ops[0]] = why.Reason
	}
	assert.Equal(t, map[*Op]Reason{gone: Outdated, deep: TooDeep}, reasons)
	assert.Equal(t, []*Op{fits}, d.move.carried)
	assert.EqualValues(t, 5*token, d.move.sums.Of("rpm").Adjust)
}

// A take that was left once already and still does not fit is denied; one that comes new is
// left for the next write.
func TestTakeIsLeftOnce(t *testing.T) {
	cfg := rpmOf(100)
	image := imageOf(cfg, token, 1000)
	fits, late, left := NewTake(t.Context(), oneToken, cfg), NewTake(t.Context(), oneToken, cfg), NewTake(t.Context(), oneToken, cfg)
	left.postponed = 1
	f := facts{takes: []*Op{fits, late, left}, view: plan.NewView(image, cfg, plan.Current, 1000), known: sight{known: true, image: image, seenAt: 1000}}
	d := decide(f)
	assert.Equal(t, []*Op{fits}, d.move.carried)
	assert.Equal(t, []*Op{late}, d.again)
	require.Len(t, d.ends, 1)
	assert.Equal(t, []*Op{left}, d.ends[0].ops)
	assert.True(t, d.ends[0].result.Denied)
}
