package shards

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
		for _, s := range ReadableShards(all, func(id ID) bool { return id.Stream == "s1" && slices.Contains(test.finished, id.Shard) }) {
			got = append(got, s.Shard)
		}
		assert.Equal(t, test.want, got, name)
	}
	assert.Empty(t, ReadableShards(nil, none))
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
		for _, s := range ReadableShards(AllKnown(listed, slices.Values(test.begun)), func(id ID) bool { return slices.Contains(test.finished, id) }) {
			got = append(got, s.ID)
		}
		assert.Equal(t, test.want, got, name)
	}
	assert.Len(t, listed, 3, "the list stays as it is")
	assert.Equal(t, next, listed[2].ID)
}
