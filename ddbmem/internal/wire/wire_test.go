package wire

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzString wants our strings to be those of encoding/json, both ways.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "quote\" slash\\ tab\t", "été 😀", "\x00\x1f\x7f", "\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ours := AppendString(nil, s)
		var back string
		require.NoError(t, json.Unmarshal(ours, &back), "%s", ours)
		theirs, err := json.Marshal(s)
		require.NoError(t, err)
		r := NewReader(theirs)
		require.Equal(t, back, r.String())
		r.End()
		require.NoError(t, r.Err())
	})
}

// FuzzSkip wants every valid document read whole, and no panic on others.
func FuzzSkip(f *testing.F) {
	for _, s := range []string{`{}`, `[1,-2.5e+3,"a",null,true,{"b":[]}]`, `{"a":null}`, `{"a"`, `[`, `"\u12"`, `nul`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := NewReader([]byte(s))
		r.Skip()
		r.End()
		if json.Valid([]byte(s)) {
			require.NoError(t, r.Err(), s)
		}
	})
}

func TestReaderStopsAtTheFirstError(t *testing.T) {
	r := NewReader([]byte(`{"a":[1,"x"],"b":2}`))
	members := 0
	r.Object(func(string) {
		members++
		r.Array(func() { r.Int() })
	})
	require.ErrorIs(t, r.Err(), ErrSyntax)
	require.Equal(t, 1, members)
}

func TestFields(t *testing.T) {
	b := []byte{'{'}
	b = append(Field(b, "a"), '1')
	b = append(Field(b, "b"), '[')
	b = append(Comma(b), '2')
	b = append(Comma(b), '3')
	require.Equal(t, `{"a":1,"b":[2,3]}`, string(append(b, ']', '}')))
}
