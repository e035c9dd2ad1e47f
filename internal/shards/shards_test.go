package shards

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func id(shard string) ID { return ID{Stream: "s1", Shard: shard} }

func none(ID) bool { return false }

func shard(name, parent string) Shard { return Shard{ID: id(name), Parent: parent} }

// TestReadyIsTheLineage: a shard may be read when its parent was, or is not there any more,
// and no shard of a stream before is left.
func TestReadyIsTheLineage(t *testing.T) {
	next := Shard{ID: ID{Stream: "s2", Shard: "a"}}
	all := []Shard{shard("b", "gone"), shard("c", "b"), shard("d", "b"), shard("e", "c"), shard("f", ""), next}
	for name, test := range map[string]struct {
		finished []string
		want     []string
	}{
		"at first":                 {nil, []string{"b", "f"}},
		"a parent was read":        {[]string{"b"}, []string{"c", "d", "f"}},
		"one of its children too":  {[]string{"b", "c"}, []string{"d", "e", "f"}},
		"a child without a parent": {[]string{"c"}, []string{"b", "e", "f"}},
		"all of the stream":        {[]string{"b", "c", "d", "e", "f"}, []string{"a"}},
	} {
		var got []string
		for _, s := range Ready(all, func(id ID) bool { return id.Stream == "s1" && slices.Contains(test.finished, id.Shard) }) {
			got = append(got, s.Shard)
		}
		assert.Equal(t, test.want, got, name)
	}
	assert.Empty(t, Ready(nil, none))
}

// TestWhatSomebodyBeganIsKnown: a shard that somebody began to read is read to its end before
// its children, and before those of a stream after its own, also if it is not listed.
func TestWhatSomebodyBeganIsKnown(t *testing.T) {
	hidden, gone, next := id("hidden"), ID{Stream: "s0", Shard: "gone"}, ID{Stream: "s2", Shard: "a"}
	listed := []Shard{shard("b", "hidden"), shard("c", ""), {ID: next}}
	for name, test := range map[string]struct{ begun, finished, want []ID }{
		"a parent":                 {[]ID{hidden, id("c")}, nil, []ID{id("c"), hidden}},
		"one that is at its end":   {[]ID{hidden}, []ID{hidden}, []ID{id("b"), id("c")}},
		"nothing":                  {nil, nil, []ID{id("b"), id("c")}},
		"of a stream before":       {[]ID{gone}, nil, []ID{gone}},
		"of one that is at an end": {[]ID{gone}, []ID{gone}, []ID{id("b"), id("c")}},
		"the last of a stream":     {[]ID{hidden}, []ID{id("b"), id("c")}, []ID{hidden}},
		"several times":            {[]ID{gone, gone, next}, nil, []ID{gone}},
	} {
		var got []ID
		for _, s := range Ready(Known(listed, slices.Values(test.begun)), func(id ID) bool { return slices.Contains(test.finished, id) }) {
			got = append(got, s.ID)
		}
		assert.Equal(t, test.want, got, name)
	}
	assert.Len(t, listed, 3, "the list stays as it is")
	assert.Equal(t, next, listed[2].ID)
}

// fleet is some followers who look one after the other, at once after each other's acts.
type fleet struct {
	shards  []Shard
	members []string
	leases  map[ID]Lease
	idle    map[ID]time.Time
}

func (f *fleet) sight(me string) *Sight {
	s := &Sight{Me: me, Ready: f.shards, Leases: f.leases, Mine: map[ID]bool{}, Idle: f.idle, Patience: 30 * time.Second}
	for _, m := range f.members {
		s.Members = append(s.Members, Lease{m, noon.Add(time.Hour)})
	}
	for id, l := range f.leases {
		if l.Holder == me && noon.Before(l.Free) {
			s.Mine[id] = true
		}
	}
	return s
}

// turn lets each of the fleet look and act once, and returns how much was done.
func (f *fleet) turn() (acts int) {
	for _, me := range f.members {
		p := f.sight(me).Plan(noon)
		for _, id := range p.Take {
			f.leases[id] = Lease{me, noon.Add(time.Minute)}
		}
		for _, id := range p.Leave {
			delete(f.leases, id)
		}
		acts += len(p.Take) + len(p.Leave)
	}
	return acts
}

// TestSharesAreEven: wherever leases are at first, soon every shard has a reader, nobody
// has more than a share, rounded up, two have about half, and nothing moves any more.
func TestSharesAreEven(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		f := &fleet{leases: map[ID]Lease{}}
		for i := range rnd.IntN(20) {
			f.shards = append(f.shards, shard(fmt.Sprint("shard-", i), ""))
		}
		for i := range 1 + rnd.IntN(5) {
			f.members = append(f.members, fmt.Sprint("tail-", i))
		}
		for _, s := range f.shards {
			switch n := rnd.IntN(len(f.members) + 2); {
			case n < len(f.members):
				f.leases[s.ID] = Lease{f.members[n], noon.Add(time.Minute)}
			case n == len(f.members):
				f.leases[s.ID] = Lease{"somebody dead", noon.Add(-time.Second)}
			}
		}
		turns := 0
		for f.turn() > 0 {
			if turns++; turns > 10 {
				require.Fail(t, "shards are moved for ever", "seed %d", seed)
			}
		}
		loads := map[string]int{}
		for _, m := range f.members {
			loads[m] = 0
		}
		for _, s := range f.shards {
			loads[f.leases[s.ID].Holder]++
		}
		require.Len(t, loads, len(f.members), "seed %d: %v", seed, loads)
		counts := slices.Collect(maps.Values(loads))
		share := (len(f.shards) + len(f.members) - 1) / len(f.members)
		require.True(t, slices.Max(counts) <= share || slices.Max(counts)-slices.Min(counts) <= 1, "seed %d: %v", seed, loads)
		if len(f.members) == 2 {
			require.LessOrEqual(t, slices.Max(counts)-slices.Min(counts), 1, "seed %d: %v", seed, loads)
		}
	}
}

// TestWhatNobodyTakesIsTaken: a shard that is another's share is taken in the end, if they do
// not take it.
func TestWhatNobodyTakesIsTaken(t *testing.T) {
	f := &fleet{
		shards: []Shard{shard("a", ""), shard("b", "")}, members: []string{"lame", "me"},
		leases: map[ID]Lease{id("a"): {"me", noon.Add(time.Minute)}}, idle: map[ID]time.Time{id("b"): noon.Add(-30 * time.Second)},
	}
	assert.Empty(t, f.sight("me").Plan(noon).Take)
	assert.Equal(t, []ID{id("b")}, f.sight("me").Plan(noon.Add(time.Second)).Take)
}

// TestNextIsWhenALeaseEnds: of another, and only one that matters.
func TestNextIsWhenALeaseEnds(t *testing.T) {
	f := &fleet{shards: []Shard{shard("a", ""), shard("b", "")}, members: []string{"me"}, leases: map[ID]Lease{
		id("a"): {"other", noon.Add(20 * time.Second)}, id("b"): {"me", noon.Add(time.Second)}, id("finished"): {"other", noon.Add(time.Second)},
	}}
	assert.Equal(t, noon.Add(20*time.Second), f.sight("me").Plan(noon).Next)
	delete(f.leases, id("a"))
	assert.Zero(t, f.sight("me").Plan(noon).Next)
}
