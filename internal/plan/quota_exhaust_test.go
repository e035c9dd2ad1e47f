package plan

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Every state of a small quota that stale clients share, over several windows, with the real
// decisions. The refill instant is not looked at: it alone protects nothing here.

// quotaCase is what a quota allows in its successive configurations, and how far the clocks of
// the two clients are off, in windows.
type quotaCase struct {
	allows [3]int64
	clocks [2]int64
	last   int64 // hour
	// units are those of its windows; "" is an hour.
	units [3]string
}

// quotaItem is a quota as it is stored, or as an image shows it.
type quotaItem struct {
	tokens, window int64
	life           uint16
	config         int // its index
}

// quotaState is a state: live are grants that may still be given back, held what the law says
// that the quota holds.
type quotaState struct {
	now    int64
	item   quotaItem
	images [2]quotaItem
	config int // the newest
	held   int64
	live   [1]quotaGrant
	// granted is what an operator added in this window.
	granted bool
}

type quotaGrant struct {
	amount, window int64
	life           uint16
}

// in is the window of a grant.
func (g quotaGrant) in() bucket.WindowID { return bucket.InLife(g.life, g.window) }

// quotaSearch is a search.
type quotaSearch struct {
	quotaCase
	rates [3]bucket.Rate
	cfgs  [3]*Config
	set   *schema.LimitSet
	seen  map[quotaState]struct{}
	todo  []quotaState
	found string
}

// quotaHour is an hour in ms, quotaDay the hour before the first one.
const (
	quotaHour = 3_600_000
	quotaDay  = 240
)

func newQuotaSearch(t *testing.T, c quotaCase) *quotaSearch {
	x := &quotaSearch{quotaCase: c, seen: map[quotaState]struct{}{}, set: schema.NewLimitSets().OfKinds([]string{"x"}, []string{"x"})}
	for i, n := range c.allows {
		windows, err := calendar.WindowsOf(cmp.Or(c.units[i], "hour"), "")
		require.NoError(t, err)
		x.rates[i] = bucket.Quota(n, windows)
		x.cfgs[i] = &Config{Fingerprint: []byte(fmt.Sprintf("config %d", i)), Permanent: true, Limits: []schema.Limit{{Name: "x", Rate: x.rates[i], Capacity: n}}}
	}
	return x
}

func (x *quotaSearch) push(s quotaState) {
	if x.found == "" && s.item.tokens != s.held {
		x.found = fmt.Sprintf("holds %d, by the law %d: %+v", s.item.tokens, s.held, s)
	}
	if _, known := x.seen[s]; !known {
		x.seen[s] = struct{}{}
		x.todo = append(x.todo, s)
	}
}

func (x *quotaSearch) explore(t *testing.T) string {
	full := quotaItem{tokens: x.allows[0], window: x.rates[0].Windows().At((quotaDay + 1) * quotaHour)}
	x.push(quotaState{now: 1, item: full, images: [2]quotaItem{full, full}, held: x.allows[0]})
	for len(x.todo) > 0 && x.found == "" {
		s := x.todo[len(x.todo)-1]
		x.todo = x.todo[:len(x.todo)-1]
		if s.now < x.last {
			next := s
			next.now++
			x.push(next)
		}
		if s.config+1 < len(x.allows) {
			next := s
			next.config++
			x.push(next)
		}
		if !s.granted { // an operator, with or without a look
			next := s
			next.item.tokens, next.held, next.granted = s.item.tokens+1, s.held+1, true
			x.push(next)
		}
		x.givesBack(s)
		for c := range s.images {
			look := s
			look.images[c] = s.item
			x.push(look)
			for adopt := range s.config + 1 {
				x.acts(s, c, adopt)
			}
		}
		require.Less(t, len(x.seen), 3_000_000, "the state space is too large")
	}
	return x.found
}

// givesBack is a give-back alone, which needs no image: it lands in the window in which it was
// taken, or goes to the counter alone.
func (x *quotaSearch) givesBack(s quotaState) {
	for k, g := range s.live {
		if g.amount == 0 {
			continue
		}
		next := s
		next.live[k] = quotaGrant{}
		if g.window == s.item.window && g.life == s.item.life {
			next.held += g.amount
			next.item.tokens += g.amount
		}
		x.push(next)
	}
}

// acts is everything that client c may write with a configuration, the stored one or a newer one.
func (x *quotaSearch) acts(s quotaState, c, config int) {
	m := s.images[c]
	if config < m.config {
		return
	}
	for k := -1; k < len(s.live); k++ {
		var back quotaGrant
		rest := s.live
		if k >= 0 {
			if back = s.live[k]; back.amount == 0 {
				continue
			}
			rest[k] = quotaGrant{}
		}
		for take := range int64(3) {
			for adjust := range int64(2) {
				if take+adjust > 0 && s.held-adjust >= -2 {
					x.writes(s, c, config, bucket.Amounts{Take: take, Adjust: adjust, Back: back.amount}, back, rest)
				}
			}
		}
	}
}

// writes is one batch of client c.
func (x *quotaSearch) writes(s quotaState, c, config int, a bucket.Amounts, of quotaGrant, rest [1]quotaGrant) {
	m := s.images[c]
	now := (quotaDay + s.now + x.clocks[c]) * quotaHour
	v := View{
		Image: &schema.Image{
			Set: x.set, Refilled: now - 1, HasRefilled: true, Fingerprint: x.cfgs[m.config].Fingerprint,
			Limits: []schema.Stored{{Rate: x.rates[m.config], Tokens: m.tokens, Capacity: x.allows[m.config]}},
		},
		Config: x.cfgs[config], Adopt: config > m.config, Now: now,
	}
	v.Image.Limits[0] = v.Image.Limits[0].InWindow(m.window)
	v.Image.Limits[0].Life = m.life
	sums := Rows{{Name: "x", Amounts: a, Window: of.in()}}
	if carried := v.Rows(Rows{{Name: "x", Amounts: bucket.Amounts{Back: a.Back}, Window: sums[0].Window}}, nil); !carried.Fit([]Signed{{Name: "x", Amount: a.Take}}, nil, false) {
		return
	}
	switch w := v.Plan(sums, Rules{}); w.Kind {
	case Spend:
		x.lands(s, c, m, quotaWrite{Update: w.Spend.Limits[0].Update, window: m.window, life: m.life, now: now, config: m.config}, a, of, rest)
	case Claim:
		l := w.Claim.Limits[0]
		x.lands(s, c, m, quotaWrite{Update: l.Update, window: l.Window.Ordinal(), life: l.Window.Life(), now: now, config: config}, a, of, rest)
	default:
		x.found = fmt.Sprintf("neither a spend nor a claim: %+v", w)
	}
}

// quotaWrite is what a decided write does.
type quotaWrite struct {
	bucket.Update
	window, now int64
	life        uint16
	config      int
}

// lands evaluates the condition, applies the update, and what the law says of it.
func (x *quotaSearch) lands(s quotaState, c int, m quotaItem, w quotaWrite, a bucket.Amounts, of quotaGrant, rest [1]quotaGrant) {
	switch {
	case s.item.config != m.config, s.item.window != m.window, (w.HasLow || w.Full) && s.item.tokens < w.Low, !w.Full && s.item.tokens > w.High:
		return
	}
	next := s
	next.live, next.item.config = rest, w.config
	if next.item.tokens = s.item.tokens + w.Add; w.Full {
		next.item.tokens = w.Put
	}
	next.item.window, next.item.life = w.window, w.life
	// The law.
	was, is, opens := x.rates[s.item.config].Windows(), x.rates[w.config].Windows(), max(0, w.window-s.item.window)
	if was != is { // it may open a window of the old unit, and begins a life
		opens = max(0, was.At(w.now)-s.item.window)
	}
	if begins := was != is; begins != (w.life != s.item.life) {
		x.found = fmt.Sprintf("life %d follows %d: %+v", w.life, s.item.life, s)
		return
	}
	if opens > 0 {
		next.held, next.granted = min(x.allows[s.item.config], s.held+opens*x.allows[s.item.config]), false
	}
	next.held += x.allows[w.config] - x.allows[s.item.config]
	if was == is && w.window < s.item.window {
		x.found = fmt.Sprintf("a window is opened again: %+v", s)
		return
	}
	if a.Back > 0 && of.window == next.item.window && of.life == next.item.life && opens == 0 {
		next.held += a.Back
	}
	if next.held -= a.Take; a.Take > 0 && next.held < 0 {
		x.found = fmt.Sprintf("over-admits by %d: %+v of %+v", -next.held, a, s)
		return
	}
	next.held -= a.Adjust
	x.push(next) // the answer is lost
	next.images[c] = next.item
	x.push(next)
	if free := slices.Index(rest[:], quotaGrant{}); a.Take > 0 && free >= 0 {
		next.live[free] = quotaGrant{a.Take, next.item.window, next.item.life}
		x.push(next)
	}
}

var quotaCases = []quotaCase{
	{allows: [3]int64{1, 1, 1}, last: 2, units: [3]string{"day", "hour", "day"}},
	{allows: [3]int64{2, 1, 3}, last: 2},
	{allows: [3]int64{1, 3, 2}, clocks: [2]int64{0, -1}, last: 3},
	{allows: [3]int64{2, 1, 2}, clocks: [2]int64{0, 1}, last: 2},
}

// TestEveryStateOfAQuota: a quota holds exactly what it allows in the window less what is used
// of it, and no take lowers it below 0, whatever is stale, lost, changed or granted.
func TestEveryStateOfAQuota(t *testing.T) {
	for _, c := range quotaCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			x := newQuotaSearch(t, c)
			require.Empty(t, x.explore(t))
			t.Logf("%d states, complete", len(x.seen))
		})
	}
}
