package lane

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Every state of a small limit that two stale clients share, where some calls have it in shadow and
// others enforce it, and its debt may be bounded, with the real decisions. Nothing is refilled: time
// stands still.

// shadowState is what the bucket holds, what the images of the clients show, and what has been used.
type shadowState struct {
	tokens, used int64
	images       [2]int64
}

const (
	shadowBurst = 3
	shadowUsed  = 9 // at most, by all calls
)

type shadowSearch struct {
	rate    bucket.Rate
	maxDebt int64 // 0 for any debt
	set     *schema.LimitSet
	window  int64
	cfgs    [2]*plan.Config // enforced, in shadow
	seen    map[shadowState]struct{}
	todo    []shadowState
}

func newShadowSearch(rate bucket.Rate, maxDebt int64, quotas ...string) *shadowSearch {
	x := &shadowSearch{rate: rate, maxDebt: maxDebt, seen: map[shadowState]struct{}{}, set: schema.NewLimitSets().OfKinds([]string{"x"}, quotas), window: 1}
	for i := range x.cfgs {
		x.cfgs[i] = &plan.Config{Fingerprint: []byte("the same"), Permanent: true, Shadow: uint32(i), Limits: []plan.Limit{{Name: "x", Rate: rate, Capacity: rate.Burst, MaxDebt: maxDebt}}}
	}
	return x
}

func (x *shadowSearch) push(s shadowState) {
	if _, known := x.seen[s]; !known {
		x.seen[s] = struct{}{}
		x.todo = append(x.todo, s)
	}
}

func (x *shadowSearch) explore(t *testing.T) {
	x.push(shadowState{tokens: shadowBurst, images: [2]int64{shadowBurst, shadowBurst}})
	for len(x.todo) > 0 {
		s := x.todo[len(x.todo)-1]
		x.todo = x.todo[:len(x.todo)-1]
		for c := range s.images {
			look := s
			look.images[c] = s.tokens
			x.push(look)
			for mode := range x.cfgs {
				for first := range int64(3) {
					for second := range first + 1 {
						for adjust := range int64(3) {
							if sum := first + second + adjust; sum > 0 && s.used+sum <= shadowUsed {
								x.writes(t, s, c, mode, []int64{first, second}, adjust)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d states, complete", len(x.seen))
}

// writes is one batch of client c, by calls of one mode.
func (x *shadowSearch) writes(t *testing.T, s shadowState, c, mode int, takes []int64, adjust int64) {
	const now = 3_600_000
	cfg := x.cfgs[mode]
	image := &schema.Image{
		Set: x.set, Refilled: now, HasRefilled: true, Fingerprint: cfg.Fingerprint,
		Limits: []schema.Stored{schema.Stored{Rate: x.rate, Tokens: s.images[c], Capacity: x.rate.Burst}.In(x.window)},
	}
	if !x.rate.IsQuota() {
		image.Limits[0] = image.Limits[0].In(0)
	}
	var q choices
	asked := int64(0)
	for _, n := range takes {
		if n > 0 {
			q.takes, asked = append(q.takes, NewTake(t.Context(), []plan.Signed{{Name: "x", Amount: n}}, cfg)), asked+n
		}
	}
	if adjust > 0 {
		q.adjusts = []*Op{NewAdjust(t.Context(), []plan.Signed{{Name: "x", Amount: adjust}}, nil, cfg)}
		q.adjusts[0].addTo(&q.sums)
	}
	d := choose(&sight{known: true, image: image}, plan.NewView(image, cfg, plan.Current, now), q)
	about := fmt.Sprintf("mode %d, %v + %d of %+v", mode, takes, adjust, s)
	if mode == 1 {
		require.Empty(t, d.left, "nobody is denied: %s", about)
	}
	if d.write.Kind != plan.Spend {
		require.Empty(t, d.carried, about)
		return
	}
	beyond, admitted, down := int64(0), int64(0), int64(0)
	for _, w := range d.down {
		down += w.Amount
	}
	for _, o := range d.admitted {
		admitted += o.Amounts[0].Amount
		for _, b := range o.down {
			beyond += b.Amount
		}
	}
	l := d.write.Spend.Limits[0]
	next := s
	switch u := l.Update; {
	case u.HasLow && s.tokens < u.Low, !u.Full && s.tokens > u.High:
		return // refused
	case u.Full:
		next.tokens = u.Put
	default:
		next.tokens += u.Add
	}
	require.Equal(t, admitted+adjust, l.Consumed, "the counter has what was used: %s", about)
	require.Equal(t, s.tokens-(admitted-beyond)-(adjust-down), next.tokens, "the tokens have what was charged: %s", about)
	if x.maxDebt > 0 && adjust > down {
		require.GreaterOrEqual(t, next.tokens, -x.maxDebt, "deeper in debt than it may be: %s", about)
	}
	room := s.images[c] - (admitted - beyond) + x.maxDebt // what the image has for corrections
	require.Equal(t, down, min(adjust, max(0, adjust-room))*min(1, x.maxDebt), "written down: %s", about)
	if mode == 0 {
		require.Zero(t, beyond, about)
		require.LessOrEqual(t, admitted, max(0, s.tokens), "over-admits: %s", about)
	} else {
		require.Equal(t, asked, admitted, about)
		require.LessOrEqual(t, admitted-beyond, max(0, s.images[c]-adjust), "charged beyond what the image had: %s", about)
		require.False(t, beyond > 0 && len(d.admitted) == 1 && s.images[c]-adjust >= admitted, "counted what the image had: %s", about)
	}
	next.used += admitted + adjust
	x.push(next) // the answer is lost
	next.images[c] = next.tokens
	x.push(next)
}

// TestEveryStateOfALimitInShadow: calls that have a limit in shadow are never denied, and charge no
// more than what they saw; calls that enforce it are never beyond it, whatever the others did; and no
// correction leaves a deeper debt than the limit may have.
func TestEveryStateOfALimitInShadow(t *testing.T) {
	hours, err := calendar.WindowsOf("hour", "")
	require.NoError(t, err)
	for _, maxDebt := range []int64{0, 1, 2} {
		newShadowSearch(bucket.Rate{Burst: shadowBurst, Amount: 1, Period: 3_600_000}, maxDebt).explore(t)
		newShadowSearch(bucket.Quota(shadowBurst, hours), maxDebt, "x").explore(t)
	}
}
