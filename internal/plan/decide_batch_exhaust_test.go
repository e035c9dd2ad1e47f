package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// sharing is a small bucket that interactive calls share with batch calls. A write of batch calls is decided from any
// image, at any instant, and lands at a later one or never. Interactive calls are decided and land at once. They are
// also offered to a bucket alone, of the reserve's burst. All amounts are in units, one of which is refilled a ms.
type sharing struct {
	burst, reserve, ticks int64
	set                   *schema.LimitSet
	cfg                   *Config
	// writes are the decided writes with batch calls, by the instant of the decision.
	writes [][]sharedWrite
	seen   map[sharedState]struct{}
	todo   []sharedState
	found  string // what breaks a law
}

// sharingUnit is a unit in millitokens. It is large enough for the slack of a write.
const sharingUnit = 16

// sharedWrite is a decided write: its update, and the units of the interactive take that it carries.
type sharedWrite struct {
	bucket.Update
	interactive int64
}

// sharedState is the state of both buckets at an instant, with two writes in flight: their instant and index.
type sharedState struct {
	at, tokens, alone int64
	flying            [2]struct{ at, index int64 }
}

func (x *sharing) view(tokens, at int64) View {
	image := &schema.Image{Set: x.set, Refilled: exhaustNow, HasRefilled: true, Fingerprint: x.cfg.Fingerprint}
	image.Limits = []schema.Stored{{Rate: x.cfg.Limits[0].Rate, Tokens: tokens}}
	return View{Image: image, Config: x.cfg, Now: exhaustNow + at}
}

// decide decides a write of an interactive and a batch take, in units, each 0 for none. ok is false if the write does
// not carry the batch take or, without one, the interactive one.
func (x *sharing) decide(v View, interactive, batch int64, crowding Crowding) (w sharedWrite, ok bool) {
	var asks []*Ask
	for _, a := range []Ask{{Take: true, Amounts: []Signed{{Name: "x", Amount: interactive * sharingUnit}}}, {Take: true, Batch: true, Amounts: []Signed{{Name: "x", Amount: batch * sharingUnit}}}} {
		if a.Amounts[0].Amount > 0 {
			asks = append(asks, &a)
		}
	}
	d := Decide(v, asks, nil, Rules{Crowding: crowding})
	if last := asks[len(asks)-1]; last.Fate != Carried || d.Write.Kind != Spend {
		return w, false
	}
	return sharedWrite{d.Write.Spend.Limits[0].Update, interactive}, true
}

// lands returns the tokens after a write that lands on others.
func (w sharedWrite) lands(tokens int64) (after int64, ok bool) {
	switch {
	case w.HasLow && tokens < w.Low, !w.Full && tokens > w.High:
		return tokens, false
	case w.Full:
		return w.Put, true
	}
	return tokens + w.Add, true
}

// visit visits every state, and returns their number.
func (x *sharing) visit() int {
	x.set = schema.NewLimitSets().Of([]string{"x"})
	x.cfg = &Config{Fingerprint: []byte("12345678"), Permanent: true, Limits: []schema.Limit{{
		Name: "x", Rate: bucket.Rate{Burst: x.burst * sharingUnit, Amount: sharingUnit, Period: 1}, Reserve: x.reserve * sharingUnit,
	}}}
	for at := range x.ticks + 1 {
		known := map[sharedWrite]bool{}
		for tokens := -x.ticks; tokens <= x.burst; tokens++ {
			for _, crowding := range []Crowding{{}, {Slack: 1000}, {Slack: 1000, Heard: 2 * exhaustNow}} {
				for _, batch := range []int64{1, 2, x.burst - x.reserve} {
					for interactive := range int64(4) {
						if w, ok := x.decide(x.view(tokens*sharingUnit, at), interactive, batch, crowding); ok {
							known[w] = true
						}
					}
				}
			}
		}
		var writes []sharedWrite
		for w := range known {
			writes = append(writes, w)
		}
		x.writes = append(x.writes, writes)
	}
	x.seen = map[sharedState]struct{}{}
	nothing := struct{ at, index int64 }{-1, 0}
	start := sharedState{tokens: x.burst * sharingUnit, alone: x.reserve}
	start.flying[0], start.flying[1] = nothing, nothing
	x.push(start)
	for len(x.todo) > 0 && x.found == "" {
		s := x.todo[len(x.todo)-1]
		x.todo = x.todo[:len(x.todo)-1]
		x.step(s)
	}
	return len(x.seen)
}

func (x *sharing) push(s sharedState) {
	if a, b := s.flying[0], s.flying[1]; a.at > b.at || a.at == b.at && a.index > b.index {
		s.flying[0], s.flying[1] = b, a
	}
	if _, known := x.seen[s]; !known {
		x.seen[s] = struct{}{}
		x.todo = append(x.todo, s)
	}
}

// step visits the states that follow one.
func (x *sharing) step(s sharedState) {
	if s.at < x.ticks {
		next := s
		next.at, next.alone = s.at+1, min(x.reserve, s.alone+1)
		x.push(next)
	}
	v := x.view(s.tokens, s.at)
	for units := int64(1); units <= 3 && units <= s.alone; units++ {
		next, lands := s, false
		if w, ok := x.decide(v, units, 0, Crowding{}); ok {
			next.tokens, lands = w.lands(s.tokens)
		}
		if next.alone -= units; !lands {
			x.found = fmt.Sprintf("%+v: an interactive call of %d is denied", s, units)
		}
		x.push(next)
	}
	level := min(x.burst*sharingUnit, s.tokens+s.at*sharingUnit)
	for _, units := range []int64{1, 2, x.burst - x.reserve} {
		w, ok := x.decide(v, 0, units, Crowding{})
		if ok {
			_, ok = w.lands(s.tokens)
		}
		if fits := level >= (units+x.reserve)*sharingUnit; fits != ok {
			x.found = fmt.Sprintf("%+v: a batch call of %d is admitted: %v", s, units, ok)
		}
	}
	for i, f := range s.flying {
		next := s
		next.flying[i].at = -1
		next.flying[i].index = 0
		if f.at < 0 {
			for index := range x.writes[s.at] {
				next.flying[i] = struct{ at, index int64 }{s.at, int64(index)}
				x.push(next)
			}
			continue
		}
		x.push(next) // lost
		w, landed := x.writes[f.at][f.index], false
		if w.interactive > s.alone {
			continue
		}
		if next.tokens, landed = w.lands(s.tokens); landed {
			next.alone -= w.interactive
			x.push(next)
		}
	}
}

// Interactive calls that the reserve alone would admit are admitted beside batch calls, whatever these do, and batch
// calls get all that is above the reserve.
func TestBatchCallsLeaveTheReserve(t *testing.T) {
	for _, x := range []*sharing{{burst: 6, reserve: 2, ticks: 4}, {burst: 5, reserve: 2, ticks: 4}, {burst: 8, reserve: 4, ticks: 3}} {
		n := x.visit()
		require.Empty(t, x.found)
		t.Logf("burst %d, reserve %d: %d states", x.burst, x.reserve, n)
	}
}
