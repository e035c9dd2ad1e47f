package term

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var numbers = List[int]{
	Titles: []string{"NUMBER", "TWICE"},
	Row:    func(n int) []string { return []string{fmt.Sprint(n), fmt.Sprint(2 * n)} },
	None:   "No numbers.",
}

// counting yields the numbers up to n, and then err, if it is one; drawn is the last.
func counting(n int, err error, drawn *int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := 1; i <= n; i++ {
			if *drawn = i; !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

// TestLongListsAreShownAsTheyCome: rows are out before the list is at its end.
func TestLongListsAreShownAsTheyCome(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		o := &Output{Writer: &out, JSON: asJSON}
		behind := 0
		all := func(yield func(int, error) bool) {
			for i := range 5 * sample {
				behind = max(behind, i-strings.Count(out.String(), "\n"))
				if !yield(i, nil) {
					return
				}
			}
		}
		require.NoError(t, Stream(o, all, numbers))
		assert.LessOrEqual(t, behind, sample)
	}
}

func TestStreamedJSONIsAnArray(t *testing.T) {
	var out bytes.Buffer
	var drawn int
	o := &Output{Writer: &out, JSON: true}
	require.NoError(t, Stream(o, counting(3, nil, &drawn), numbers))
	assert.Equal(t, "[\n  1,\n  2,\n  3\n]\n", out.String())
	out.Reset()
	require.NoError(t, Stream(o, counting(0, nil, &drawn), numbers))
	assert.Equal(t, "[]\n", out.String())
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// TestNobodyReadsOn: a list ends when its result cannot be written.
func TestNobodyReadsOn(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var drawn int
		o := &Output{Writer: full{}, JSON: asJSON}
		require.ErrorContains(t, Stream(o, counting(10_000, nil, &drawn), numbers), "no space left")
		require.ErrorContains(t, o.Err(), "no space left")
		assert.LessOrEqual(t, drawn, sample)
	}
}

// TestRowsAreBlocksWhereColumnsDoNotFit: on a watch.
func TestRowsAreBlocksWhereColumnsDoNotFit(t *testing.T) {
	var out bytes.Buffer
	o := &Output{Writer: &out, Width: 20}
	o.Table([]string{"ENTITY", "PLAN", "PARENT", "NAME"}, [][]string{{"key-1", "professional", "-", "The first of many keys"}})
	assert.Equal(t, "key-1\n  PLAN professional\n  NAME The first of…\n", out.String())
}

// TestNothingThatATerminalObeysIsShown: neither to people nor as JSON, which says the same.
func TestNothingThatATerminalObeysIsShown(t *testing.T) {
	const hostile = "a\x1b]0;pwned\x07\u009b31m\u202eb\x7f"
	assert.Equal(t, "a�]0;pwned��31m�b�", Plain(hostile))
	assert.Equal(t, "a\nb�", PlainLines("a\nb\r"))
	var out bytes.Buffer
	o := &Output{Writer: &out, JSON: true}
	require.NoError(t, o.Show(map[string]any{"name": hostile, "metadata": json.RawMessage("\"\u009b31m\u2066\"")}, nil))
	for _, r := range out.String() {
		assert.False(t, isControl(r) || r < ' ' && r != '\n', "%q", r)
	}
	var got map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	assert.Equal(t, map[string]string{"name": hostile, "metadata": "\u009b31m\u2066"}, got)
}

func TestCutFitsTheLine(t *testing.T) {
	assert.Equal(t, "abcdefg…", (&Output{Width: 20}).Cut("abcdefghijkl", 12))
	assert.Equal(t, "abc", (&Output{Width: 20}).Cut("abc", 12))
	assert.Len(t, (&Output{}).Cut(strings.Repeat("a", 1000), 12), 227+len("…"))
}
