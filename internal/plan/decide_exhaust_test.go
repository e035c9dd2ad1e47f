package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// exhaustCase is a small bucket shared by stale clients, of which every state is
// visited. All amounts are millitokens.
type exhaustCase struct {
	burst  int64
	refill []int64 // per ms, a cycle
	// lost lets answers be lost; without it the bucket must hold burst − queue,
	// less at most the slack.
	lost bool
	// slack is how far below full a write may put a full bucket.
	slack int64
	// amounts are what takes and adjusts ask for; nil: 0 to burst.
	amounts []int64
}

// exhaustState is a state as seen from now: what is stored is worth y, refill
// included and not capped, and so are the images; what a claim makes stale is
// not valid. Live are the grants that may still be given back.
type exhaustState struct {
	phase  int
	y      int64
	images [2]exhaustImage
	queue  int64
	live   [2]int64
}

// packed is the state as a number, which a map finds sooner.
func (s exhaustState) packed() uint64 {
	return octets(s.images[0].packed()<<9|s.images[1].packed(), int64(s.phase), s.y, s.queue, s.live[0], s.live[1])
}

// octets appends numbers to a key, each in eight bits: no two states have one key.
func octets(key uint64, numbers ...int64) uint64 {
	for _, n := range numbers {
		if n < -128 || n > 127 {
			panic("too large for a key")
		}
		key = key<<8 | uint64(n+128) //nolint:gosec // not below zero
	}
	return key
}

type exhaustImage struct {
	y     int64
	valid bool
}

func (m exhaustImage) packed() uint64 {
	key := octets(0, m.y) << 1
	if m.valid {
		key |= 1
	}
	return key
}

// exhaustion is a search: the decisions are the real ones, made at now from
// images that were refilled age ms ago.
type exhaustion struct {
	exhaustCase
	seen map[uint64]struct{}
	todo []exhaustState
	set  *schema.LimitSet
	cfg  *Config
	rate bucket.Rate
	// decided remembers decisions, which are pure.
	decided map[uint64][]exhaustWrite
	// aged is the refill, by phase, since the instant that is stored.
	aged  []int64
	found string // what breaks a law
}

const (
	exhaustNow = 1_000_000
	exhaustAge = 3 // ms between the refill instant and now, where no claim was just made
)

func newExhaustion(c exhaustCase) *exhaustion {
	total := int64(0)
	for _, r := range c.refill {
		total += r
	}
	x := &exhaustion{exhaustCase: c, seen: map[uint64]struct{}{}, decided: map[uint64][]exhaustWrite{}}
	x.rate = bucket.Rate{Burst: c.burst, Amount: total, Period: int64(len(c.refill))}
	x.set = schema.NewLimitSets().Of([]string{"x"})
	x.cfg = &Config{Fingerprint: []byte("12345678"), Permanent: true, Limits: []schema.Limit{{Name: "x", Rate: x.rate}}}
	for phase := range c.refill {
		x.aged = append(x.aged, -x.image(phase, 0, true).Limits[0].Tokens)
	}
	if x.amounts == nil {
		for a := range c.burst + 1 {
			x.amounts = append(x.amounts, a)
		}
	}
	return x
}

// now is an instant of the phase: the grid's cycle is that of the refill.
func (x *exhaustion) now(phase int) int64 {
	cycle := int64(len(x.refill))
	return exhaustNow/cycle*cycle + int64(phase)
}

func (x *exhaustion) gain(phase int) int64 {
	s := bucket.State{Rate: x.rate, Refilled: x.now(phase)}
	c, _ := s.Credit(s.Refilled + 1)
	return c
}

// image is what a client holds that sees the bucket worth y.
func (x *exhaustion) image(phase int, y int64, valid bool) *schema.Image {
	m := &schema.Image{Set: x.set, Refilled: x.now(phase) - exhaustAge, HasRefilled: true, Fingerprint: x.cfg.Fingerprint}
	if !valid {
		m.Refilled-- // seen before a claim
	}
	credit, _ := bucket.State{Rate: x.rate, Refilled: m.Refilled}.Credit(x.now(phase))
	m.Limits = []schema.Stored{{Rate: x.rate, Tokens: y - credit}}
	return m
}

// top caps what is over full: fuller states behave alike.
func (x *exhaustion) top() int64 { return 2*x.burst + 2 }

func (x *exhaustion) push(s exhaustState) {
	s.y = min(s.y, x.top())
	if s.live[0] > s.live[1] {
		s.live[0], s.live[1] = s.live[1], s.live[0]
	}
	// The clients are alike: who sees what does not matter.
	if a, b := s.images[0], s.images[1]; a.packed() > b.packed() {
		s.images[0], s.images[1] = b, a
	}
	held, truth := min(x.burst, s.y), x.burst-s.queue
	if x.found == "" && (held > truth || !x.lost && held < truth-x.slack) {
		x.found = fmt.Sprintf("holds %d, truth %d", held, truth)
	}
	key := s.packed()
	if _, known := x.seen[key]; !known {
		x.seen[key] = struct{}{}
		x.todo = append(x.todo, s)
	}
}

// explore visits every state, until one breaks a law.
func (x *exhaustion) explore(t *testing.T) string {
	full := exhaustImage{x.burst, true}
	x.push(exhaustState{y: x.burst, images: [2]exhaustImage{full, full}})
	for len(x.todo) > 0 && x.found == "" {
		s := x.todo[len(x.todo)-1]
		x.todo = x.todo[:len(x.todo)-1]
		x.passes(s)
		x.givesBack(s)
		x.isFilled(s)
		for c := range s.images {
			x.acts(s, c)
		}
		require.Less(t, len(x.seen), 3_000_000, "the state space is too large")
	}
	return x.found
}

// passes is a millisecond.
func (x *exhaustion) passes(s exhaustState) {
	gain := x.gain(s.phase)
	s.phase = (s.phase + 1) % len(x.refill)
	s.y += gain
	for i := range s.images {
		s.images[i].y = min(x.top(), s.images[i].y+gain)
	}
	s.queue = max(0, s.queue-gain)
	x.push(s)
}

// givesBack is a give-back alone, which has no bounds.
func (x *exhaustion) givesBack(s exhaustState) {
	for k, amount := range s.live {
		if amount > 0 {
			next := s
			next.y, next.queue, next.live[k] = s.y+amount, max(0, s.queue-amount), 0
			x.push(next)
		}
	}
}

// isFilled is what an administrator does, who looks at nothing: a reset puts the tokens at
// the burst, whatever is refilled beside them; a top-up adds, and is kept from tokens
// beyond the burst.
func (x *exhaustion) isFilled(s exhaustState) {
	reset := s
	reset.queue = 0
	for credit := range x.top() - x.burst + 1 {
		reset.y = x.burst + credit
		x.push(reset)
	}
	for _, add := range x.amounts {
		next := s
		next.y, next.queue = s.y+add, max(0, s.queue-add)
		x.push(next)
	}
}

// acts is everything client c may do.
func (x *exhaustion) acts(s exhaustState, c int) {
	look := s
	look.images[c] = exhaustImage{min(s.y, x.top()), true}
	x.push(look)
	for k := -1; k < len(s.live); k++ {
		back, rest := int64(0), s.live
		if k >= 0 {
			if back = s.live[k]; back == 0 {
				continue
			}
			rest[k] = 0
		}
		for _, take := range x.amounts {
			for _, adjust := range x.amounts {
				if take+adjust > 0 && s.y-adjust >= -x.burst {
					x.writes(s, c, bucket.Amounts{Back: back, Take: take, Adjust: adjust}, rest)
				}
			}
		}
	}
}

// writes is one batch of client c, decided from its image.
func (x *exhaustion) writes(s exhaustState, c int, a bucket.Amounts, rest [2]int64) {
	d := exhaustDecision{s.phase, s.images[c], a}
	decided, known := x.decided[d.packed()]
	if !known {
		decided = x.decide(d)
		x.decided[d.packed()] = decided
	}
	for _, w := range decided {
		x.lands(s, c, a, rest, w)
	}
}

// exhaustDecision is what a decision depends on.
type exhaustDecision struct {
	phase int
	image exhaustImage
	bucket.Amounts
}

func (d exhaustDecision) packed() uint64 {
	return octets(d.image.packed(), int64(d.phase), d.Back, d.Take, d.Adjust)
}

// decide asks the real code: a spend, where it may be one a later one that
// commutes with claims, and a claim; then either form of both whatever the image
// says, with any slack. None for what is denied.
func (x *exhaustion) decide(d exhaustDecision) (writes []exhaustWrite) {
	v := View{Image: x.image(d.phase, d.image.y, d.image.valid), Config: x.cfg, Now: x.now(d.phase)}
	amounts := Rows{{Name: "x", Amounts: d.Amounts}}
	if v.Rows(amounts, nil); d.Take > 0 && d.Take > amounts[0].room() {
		return nil
	}
	for _, rules := range []Rules{{}, {Later: true}} {
		if rules.Later && (d.Take > 0 || d.Back > 0) {
			continue
		}
		p := v.Plan(amounts, rules)
		if p.Kind != Spend {
			x.found = fmt.Sprintf("no spend for %+v", d)
			return nil
		}
		writes = append(writes, exhaustWrite{Update: p.Spend.Limits[0].Update, later: p.Spend.LaterRefill})
	}
	p := v.planClaim(amounts, Crowding{})
	writes = append(writes, exhaustWrite{Update: p.Claim.Limits[0].Update, claim: true})
	return x.anyForm(writes, v, d.Amounts)
}

// anyForm adds what a writer may choose that does not go by its image.
func (x *exhaustion) anyForm(writes []exhaustWrite, v View, a bucket.Amounts) []exhaustWrite {
	r := &v.Rows(Rows{{Name: "x", Amounts: a}}, nil)[0]
	add := func(w bucket.Way, later bool) {
		write := exhaustWrite{Update: r.decideChange(w).Update, claim: w.Move, later: later}
		if !slices.Contains(writes, write) {
			writes = append(writes, write)
		}
	}
	for _, move := range []bool{false, true} {
		add(bucket.Way{Move: move, Form: bucket.Adding}, false)
		for slack := range min(x.slack, x.burst-a.Take) + 1 {
			add(bucket.Way{Move: move, Form: bucket.Filling, Slack: slack}, false)
		}
	}
	if a.Take == 0 && a.Back == 0 {
		add(bucket.Way{Form: bucket.Adding}, true)
	}
	return writes
}

// exhaustWrite is what a decided write does to the limit.
type exhaustWrite struct {
	bucket.Update
	later, claim bool
}

// lands evaluates the condition on what is stored, and applies the update.
func (x *exhaustion) lands(s exhaustState, c int, a bucket.Amounts, rest [2]int64, w exhaustWrite) {
	valid := s.images[c].valid
	if !valid && !w.later {
		return // rf = :seen fails
	}
	stored := s.y - x.aged[s.phase]
	next := s
	switch {
	case !x.withinBounds(stored, w.Update):
		return
	case w.Full && w.claim:
		next.y = w.Put
	case w.Full:
		next.y += w.Put - stored
	case w.claim:
		next.y = stored + w.Add // refilled now
	default:
		next.y += w.Add
	}
	next.queue = max(0, s.queue-a.Back) + a.Take
	if over := next.queue - x.burst; a.Take > 0 && over > 0 {
		x.found = fmt.Sprintf("over-admits by %d: %+v of %+v", over, a, s)
		return
	}
	next.queue += a.Adjust
	next.live = rest
	if w.claim {
		for i := range next.images {
			next.images[i].valid = false
		}
	}
	lost := next
	lost.queue -= a.Take // nobody was granted it
	if x.lost {
		x.push(lost)
	}
	next.images[c] = exhaustImage{min(next.y, x.top()), true}
	x.push(next)
	if free := slices.Index(rest[:], 0); a.Take > 0 && free >= 0 {
		next.live[free] = a.Take
		x.push(next)
	}
}

// withinBounds evaluates the bounds.
func (x *exhaustion) withinBounds(stored int64, u bucket.Update) bool {
	if u.Full {
		return stored >= u.Low
	}
	return stored <= u.High && (!u.HasLow || stored >= u.Low)
}

var exhaustCases = []exhaustCase{
	{burst: 1, refill: []int64{1}, slack: 1, lost: true},
	{burst: 2, refill: []int64{1}, slack: 2, lost: true},
	{burst: 2, refill: []int64{2}, slack: 2, lost: true},
	{burst: 2, refill: []int64{0, 1}, slack: 2, lost: true},
	{burst: 3, refill: []int64{2}, slack: 3, lost: true},
	{burst: 1, refill: []int64{1}},
	{burst: 2, refill: []int64{1}},
	{burst: 2, refill: []int64{0, 1}},
	{burst: 3, refill: []int64{2}},
	{burst: 3, refill: []int64{0, 0, 2}},
	{burst: 3, refill: []int64{1}, slack: 1},
	{burst: 3, refill: []int64{0, 0, 2}, slack: 3},
	{burst: 4, refill: []int64{2}, slack: 1},
}

func (c exhaustCase) String() string {
	return fmt.Sprintf("burst %d refill %v slack %d lost %t", c.burst, c.refill, c.slack, c.lost)
}

// TestExhaustive visits every state of small buckets: no admission lifts the
// queue above the burst, whatever is stale or lost, whichever form a write takes
// with whatever slack, and however an administrator fills the bucket; and where no answer is lost the bucket always holds
// burst − queue, less at most one slack, exactly that without.
func TestExhaustive(t *testing.T) {
	for _, c := range exhaustCases {
		t.Run(c.String(), func(t *testing.T) {
			x := newExhaustion(c)
			require.Empty(t, x.explore(t))
			t.Logf("%d states, complete", len(x.seen))
		})
	}
}
