package bucket

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A hold of 64 s has epochs of 8 s.
const (
	hold   = 64_000
	length = hold / EpochsPerHold
)

func TestEpochOfAHold(t *testing.T) {
	for now, end := range map[int64]int64{0: 64, 1: 72, 8000: 72, 8001: 80} {
		assert.Equal(t, end, EpochEnd(now, hold), now)
	}
	assert.Equal(t, int64(34), EpochEnd(1, 30_000), "in whole seconds, rounded up: 33.75")
	e := Epoch{End: 64, Slots: 1}
	assert.False(t, e.IsPast(hold, 72_000), "clocks differ by less than an epoch")
	assert.True(t, e.IsPast(hold, 72_001))
}

// A write moves the slots of the process as its open calls need them.
func TestMovesOfAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		of     Occupied
		stored []Epoch
		now    int64
		want   Moves
		free   int64
	}{
		"a call that is short": {Occupied{Open: 1, Epochs: []Epoch{{64, 1}}}, []Epoch{{64, 1}}, 31_999, Moves{End: 96}, 0},
		"a slot that ends within half a hold is renewed": {
			Occupied{Open: 3, Epochs: []Epoch{{64, 2}, {80, 1}}}, nil, 32_000, Moves{End: 96, Renewed: []Epoch{{64, 2}}}, 0,
		},
		"a call has ended: the slot that ends first goes back": {
			Occupied{Open: 1, Epochs: []Epoch{{64, 1}, {80, 1}}}, nil, 32_000, Moves{End: 96, Back: []Epoch{{64, 1}}}, 1,
		},
		"a call was admitted without the item": {Occupied{Open: 2, Epochs: []Epoch{{80, 1}}}, nil, 32_000, Moves{End: 96, Again: 1}, -1},
		"a hold has run out":                   {Occupied{Open: 1, Epochs: []Epoch{{64, 1}}}, nil, 64_000, Moves{End: 128, Again: 1}, -1},
		"an unanswered renewal counts until the old end": {
			Occupied{Open: 2, Epochs: []Epoch{{80, 1}}, Doubtful: []Epoch{{64, 1}}}, nil, 40_000, Moves{End: 104}, 0,
		},
		"and no longer":                        {Occupied{Open: 1, Doubtful: []Epoch{{64, 1}}}, nil, 64_000, Moves{End: 128, Again: 1}, -1},
		"what is doubtful is never given back": {Occupied{Doubtful: []Epoch{{64, 1}}}, nil, 40_000, Moves{End: 104}, 0},
		"past epochs of dead processes": {
			Occupied{}, []Epoch{{64, 5}, {72, 3}, {80, 1}}, 80_001, Moves{End: 152, Past: []Epoch{{64, 5}, {72, 3}}}, 8,
		},
	} {
		moves := c.of.DecideMoves(c.stored, hold, c.now)
		assert.Equal(t, c.want, moves, name)
		assert.Equal(t, c.free, moves.Free(), name)
	}
}

func TestChangesOfOneEpochAreOne(t *testing.T) {
	m := Moves{End: 96, New: 2, Again: 1, Back: []Epoch{{64, 1}, {96, 1}}, Renewed: []Epoch{{64, 2}}}
	assert.Equal(t, []EpochChange{{64, 3, -3}, {96, 1, 4}}, m.Changes())
	m = Moves{End: 96, New: 1, Back: []Epoch{{96, 1}}}
	assert.Equal(t, []EpochChange{{96, 1, 0}}, m.Changes())
}

// The timer of a process fires when a slot needs a write, and not before.
func TestDueOfSlots(t *testing.T) {
	for name, c := range map[string]struct {
		of   Occupied
		want int64
	}{
		"none":                     {Occupied{}, Never},
		"half a hold before":       {Occupied{Open: 1, Epochs: []Epoch{{64, 1}}}, 32_000},
		"at once, to renew":        {Occupied{Open: 1, Epochs: []Epoch{{40, 1}}}, 10_000},
		"at once, to take again":   {Occupied{Open: 1}, 10_000},
		"at once, to give back":    {Occupied{Epochs: []Epoch{{64, 1}}}, 10_000},
		"once the doubt has ended": {Occupied{Open: 1, Doubtful: []Epoch{{24, 1}}}, 24_000},
		"nothing to be done":       {Occupied{Doubtful: []Epoch{{64, 1}}}, Never},
	} {
		assert.Equal(t, c.want, c.of.Due(hold, 10_000), name)
	}
}

// slotWorld is an item with n slots, and processes with calls in flight that write to it.
type slotWorld struct {
	n, free   int64
	epochs    map[int64]int64
	now       int64
	processes []*slotProcess
	killed    []*slotProcess
}

// slotProcess is a process with at most one write in flight.
type slotProcess struct {
	of     Occupied
	flight *Moves
	// ahead is the lead of its clock.
	ahead int64
}

func (w *slotWorld) stored() (list []Epoch) {
	for _, end := range slices.Sorted(maps.Keys(w.epochs)) {
		list = append(list, Epoch{end, w.epochs[end]})
	}
	return list
}

// land executes a write if its condition holds.
func (w *slotWorld) land(m *Moves) bool {
	free := m.Free() - m.New
	if m.New > 0 && w.free < -free {
		return false
	}
	for _, e := range m.Past {
		if was, there := w.epochs[e.End]; !there || was != e.Slots {
			return false
		}
	}
	for _, c := range m.Changes() {
		if w.epochs[c.End] < c.Least {
			return false
		}
	}
	for _, e := range m.Past {
		delete(w.epochs, e.End)
	}
	for _, c := range m.Changes() {
		w.epochs[c.End] += c.Add
	}
	w.free += free
	return true
}

// live counts the open calls whose hold has not run out, as their processes know it.
func (w *slotWorld) live() (n int64) {
	for _, p := range slices.Concat(w.processes, w.killed) {
		of := p.of
		of.Expire(w.now + p.ahead)
		n += min(of.Open, SumSlots(of.Epochs)+SumSlots(of.Doubtful))
	}
	return n
}

// Processes take, end, renew, are killed and freeze; answers are lost and writes land late. Whatever happens: no
// slot is lost or made, none is further ahead than a hold, no call is admitted above the limit while more holds
// run, a process finds its own slots, and everything comes back.
func TestSlotsInEveryHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 4).Draw(t, "n")
		w := &slotWorld{n: n, free: n, epochs: map[int64]int64{}, now: 1_000_000}
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			w.processes = append(w.processes, &slotProcess{ahead: rapid.Int64Range(0, length-1).Draw(t, "ahead")})
		}
		var late []Moves // writes that nobody waits for
		alive := func(t *rapid.T) *slotProcess { return rapid.SampledFrom(w.processes).Draw(t, "process") }
		send := func(p *slotProcess, takes int64) {
			if p.flight != nil {
				return
			}
			m := p.of.DecideMoves(w.stored(), hold, w.now+p.ahead)
			if m.New = takes; !m.ChangesHeld() && takes == 0 {
				return
			}
			p.flight = &m
		}
		land := func(p *slotProcess, answered bool) {
			if p.flight == nil {
				return
			}
			m := *p.flight
			p.flight = nil
			if !w.land(&m) {
				for _, list := range [][]Epoch{m.Back, m.Renewed} {
					for _, e := range list {
						require.False(t, e.End*1000 > w.now+p.ahead && w.epochs[e.End] < e.Slots, "a process finds its slots")
					}
				}
				return // decided again
			}
			if !answered {
				p.of.Unanswered(&m)
				return
			}
			if p.of.Landed(&m); m.New > 0 && m.End*1000 > w.now+p.ahead {
				require.LessOrEqual(t, w.live(), n, "admitted above the limit")
			}
		}
		t.Repeat(map[string]func(t *rapid.T){
			"time":   func(t *rapid.T) { w.now += rapid.Int64Range(1, length).Draw(t, "ms") },
			"freeze": func(t *rapid.T) { w.now += rapid.Int64Range(hold/2, 2*hold).Draw(t, "ms") },
			"take":   func(t *rapid.T) { send(alive(t), 1) },
			"tend":   func(t *rapid.T) { send(alive(t), 0) },
			"end": func(t *rapid.T) {
				if p := alive(t); p.of.Open > 0 {
					p.of.Open--
				}
			},
			"lapse": func(t *rapid.T) {
				if p := alive(t); p.of.Open > 0 && p.flight == nil {
					p.of.Lapse(1)
				}
			},
			"kill": func(t *rapid.T) {
				p := alive(t)
				dead := *p
				if w.killed = append(w.killed, &dead); p.flight != nil {
					late = append(late, *p.flight)
				}
				*p = slotProcess{ahead: p.ahead}
			},
			"land":        func(t *rapid.T) { land(alive(t), true) },
			"lose answer": func(t *rapid.T) { land(alive(t), false) },
			"give up": func(t *rapid.T) {
				if p := alive(t); p.flight != nil {
					p.of.Unanswered(p.flight)
					late, p.flight = append(late, *p.flight), nil
				}
			},
			"land late": func(t *rapid.T) {
				if len(late) > 0 {
					w.land(&late[0])
					late = late[1:]
				}
			},
			"": func(t *rapid.T) {
				sum := w.free
				for end, slots := range w.epochs {
					require.GreaterOrEqual(t, slots, int64(0))
					require.True(t, slots == 0 || end*1000 <= w.now+hold+2*length, "further ahead than a hold")
					sum += slots
				}
				require.Equal(t, n, sum, "no slot is lost or made")
			},
		})
		w.now += hold + 3*length + 1
		var nobody Occupied
		m := nobody.DecideMoves(w.stored(), hold, w.now)
		require.True(t, w.land(&m))
		require.Equal(t, n, w.free, "everything comes back")
	})
}
