package schema

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A note takes 25 bytes, and each reserved amount a few more.
func TestNoteIsShort(t *testing.T) {
	n := Note{Until: 1, At: 1_790_000_000_123, Lane: 0xDEADBEEF, Age: 66.5, Spread: 4.25}
	assert.Len(t, n.Bytes(), 25)
	assert.Equal(t, &n, decodeNote(n.Bytes()))
	n.Needs = []int64{1000, 0, 8_000_000}
	assert.Len(t, n.Bytes(), 25+2+1+4)
	assert.Equal(t, &n, decodeNote(n.Bytes()))
}

func TestMalformedNotesAreSkipped(t *testing.T) {
	n := Note{Until: 1, At: 2, Lane: 3, Age: 4, Spread: 5, Needs: []int64{6}}
	good := n.Bytes()
	for i := range len(good) - 1 {
		assert.Nil(t, decodeNote(good[:min(i, noteSize-1)]), "%d bytes", i)
	}
	for name, change := range map[string]func(n *Note){
		"age is no number":   func(n *Note) { n.Age = math.NaN() },
		"age is infinite":    func(n *Note) { n.Age = math.Inf(1) },
		"spread is negative": func(n *Note) { n.Spread = -1 },
		"too many needs":     func(n *Note) { n.Needs = make([]int64, MaxStored+1) },
	} {
		bad := n
		change(&bad)
		assert.Nil(t, decodeNote(bad.Bytes()), name)
	}
	later := n.Bytes()
	later[0]++
	assert.Nil(t, decodeNote(later), "of a later version")
	assert.Nil(t, decodeNote(append(n.Bytes(), 0x80)), "half a varint")
	assert.Nil(t, noteOf(String("x")))
	assert.Nil(t, noteOf(nil))
}

// FuzzNote decodes any bytes; a note that is read is written as it was read.
func FuzzNote(f *testing.F) {
	n := Note{Until: 9, At: 8, Lane: 7, Age: 6, Spread: 5, Needs: []int64{4, 3}}
	f.Add(n.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := decodeNote(b); n != nil {
			require.Equal(t, n, decodeNote(n.Bytes()))
		}
	})
}
