package value

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

func read(s string) (Value, error) {
	r := wire.NewReader([]byte(s))
	v := Read(r)
	r.End()
	return v, r.Err()
}

func TestWireForm(t *testing.T) {
	tests := []struct {
		in   string
		want Value
	}{
		{`{"S":"a\"\u00e9\ud83d\ude00\n"}`, String("a\"é😀\n")},
		{`{"S":""}`, String("")},
		{`{"N":"-1.50"}`, number(t, "-1.5")},
		{`{"B":"AAE="}`, Binary("\x00\x01")},
		{`{"BOOL":false}`, Bool(false)},
		{`{"NULL":true}`, Null{}},
		{`{"L":[]}`, List{}},
		{`{"L":[{"S":"a"},{"L":[]}]}`, List{String("a"), List{}}},
		{`{"M":{}}`, Map{}},
		{`{"M":{"a":{"N":"1"}}}`, Map{"a": number(t, "1")}},
		{`{"SS":["b","a"]}`, StringSet{"a", "b"}},
		{`{"NS":["2","1.0"]}`, NumberSet{number(t, "1"), number(t, "2")}},
		{`{"BS":["YQ=="]}`, BinarySet{"a"}},
	}
	for _, tt := range tests {
		got, err := read(tt.in)
		require.NoError(t, err, tt.in)
		require.True(t, Equal(tt.want, got), "%s: %v", tt.in, got)
		again, err := read(string(Append(nil, got)))
		require.NoError(t, err, tt.in)
		require.True(t, Equal(got, again), "%s comes back as %v", tt.in, again)
	}
}

func TestInvalidValues(t *testing.T) {
	tests := []struct{ in, message string }{
		{`{}`, "is empty"},
		{`{"X":"a"}`, "is empty"},
		{`{"S":"a","N":"1"}`, "more than one datatypes"},
		{`{"N":"abc"}`, "cannot be converted to a numeric value: abc"},
		{`{"N":""}`, "cannot be converted to a numeric value"},
		{`{"NULL":false}`, "must have the value of true"},
		{`{"SS":[]}`, "may not be empty"},
		{`{"NS":["1","1.0"]}`, "contains duplicates"},
		{strings.Repeat(`{"L":[`, 40) + strings.Repeat(`]}`, 40), "Nesting Levels"},
	}
	for _, tt := range tests {
		_, err := read(tt.in)
		var invalid *InvalidError
		require.ErrorAs(t, err, &invalid, tt.in)
		require.ErrorContains(t, err, tt.message)
	}
	for _, in := range []string{``, `{`, `{"S":1}`, `{"S":"a"`, `{"S":"\x"}`, `{"L":{}}`, `{"B":"*"}`, `{"BOOL":"true"}`, `{"S":"a"}}`, `{"S":"` + "\x01" + `"}`} {
		_, err := read(in)
		require.True(t, errors.Is(err, wire.ErrSyntax), "%s: %v", in, err)
	}
}

func TestCompare(t *testing.T) {
	ordered := [][]Value{
		{String(""), String("a"), String("aa"), String("b"), String("é")},
		{number(t, "-1E20"), number(t, "-1"), number(t, "0"), number(t, "0.5"), number(t, "1"), number(t, "10"), number(t, "1E20")},
		{Binary(""), Binary("\x00"), Binary("\x7f"), Binary("\xff")},
	}
	for _, list := range ordered {
		for i, a := range list {
			for j, b := range list {
				order, ok := Compare(a, b)
				require.True(t, ok)
				require.Equal(t, i < j, order < 0, "%v < %v", a, b)
				require.Equal(t, i == j, Equal(a, b))
			}
		}
	}
	for _, pair := range [][2]Value{{String("1"), number(t, "1")}, {Bool(true), Bool(false)}, {nil, String("a")}, {List{}, List{}}} {
		_, ok := Compare(pair[0], pair[1])
		require.False(t, ok, "%v", pair)
	}
}

func TestSets(t *testing.T) {
	union, ok := Union(StringSet{"a", "c"}, StringSet{"b", "c"})
	require.True(t, ok)
	require.Equal(t, StringSet{"a", "b", "c"}, union)
	rest, ok := Difference(union, StringSet{"a", "x"})
	require.True(t, ok)
	require.Equal(t, StringSet{"b", "c"}, rest)
	rest, ok = Difference(rest, StringSet{"b", "c"})
	require.True(t, ok)
	require.Nil(t, rest)
	_, ok = Union(StringSet{"a"}, NumberSet{number(t, "1")})
	require.False(t, ok)
	_, ok = Difference(String("a"), StringSet{"a"})
	require.False(t, ok)
}

func TestSize(t *testing.T) {
	tests := []struct {
		v    Value
		want int
	}{
		{String("été"), 5},
		{Binary("abc"), 3},
		{Bool(true), 1},
		{Null{}, 1},
		{number(t, "0"), 1},
		{number(t, "7"), 2},
		{number(t, "-7"), 3},
		{number(t, "123"), 3},
		{number(t, "1000"), 2},
		{List{}, 3},
		{List{String("ab"), Null{}}, 3 + 1 + 2 + 1 + 1},
		{Map{}, 3},
		{Map{"ab": String("c")}, 3 + 1 + 2 + 1},
		{StringSet{"a", "bc"}, 3},
		{NumberSet{number(t, "1"), number(t, "22")}, 4},
		{BinarySet{"abc"}, 3},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, Size(tt.v), "%v", tt.v)
	}
	require.Equal(t, 2+3+1+2, Map{"pk": String("abc"), "n": number(t, "1")}.Size())
}
