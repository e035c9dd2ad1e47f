package value

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

func number(t require.TestingT, s string) Number {
	n, err := ParseNumber(s)
	require.NoError(t, err, s)
	return n
}

func TestParseNumber(t *testing.T) {
	nines := strings.Repeat("9", 38)
	tests := []struct{ in, want string }{
		{"0", "0"},
		{"-0", "0"},
		{"0e999999999999", "0"},
		{"000", "0"},
		{"0.000", "0"},
		{"007", "7"},
		{"+7", "7"},
		{"1.500", "1.5"},
		{".5", "0.5"},
		{"5.", "5"},
		{"-0.0000001", "-0.0000001"},
		{"1e3", "1000"},
		{"1E-3", "0.001"},
		{"12e+2", "1200"},
		{"100", "100"},
		{nines, nines},
		{"-" + nines, "-" + nines},
		{"0." + nines, "0." + nines},
		{"00" + nines + "000", nines + "000"},
		{"9007199254740993", "9007199254740993"},
		{"1E125", "1" + strings.Repeat("0", 125)},
		{"9.9999999999999999999999999999999999999E+125", nines + strings.Repeat("0", 88)},
		{"1E-130", "0." + strings.Repeat("0", 129) + "1"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, number(t, tt.in).String(), tt.in)
	}
}

func TestParseNumberErrors(t *testing.T) {
	tests := []struct {
		in   string
		want error
	}{
		{"", ErrNotNumeric},
		{"abc", ErrNotNumeric},
		{"1a", ErrNotNumeric},
		{"1e", ErrNotNumeric},
		{"1e+", ErrNotNumeric},
		{".", ErrNotNumeric},
		{"-", ErrNotNumeric},
		{"1.2.3", ErrNotNumeric},
		{" 1", ErrNotNumeric},
		{"1 ", ErrNotNumeric},
		{"NaN", ErrNotNumeric},
		{"Infinity", ErrNotNumeric},
		{"0x1", ErrNotNumeric},
		{"1e1.5", ErrNotNumeric},
		{strings.Repeat("1", 39), ErrPrecision},
		{"1" + strings.Repeat("0", 37) + "1", ErrPrecision},
		{"1E126", ErrOverflow},
		{"-1E126", ErrOverflow},
		{"1e99999999999999999999", ErrOverflow},
		{"1E-131", ErrUnderflow},
		{"1e-99999999999999999999", ErrUnderflow},
	}
	for _, tt := range tests {
		_, err := ParseNumber(tt.in)
		require.ErrorIs(t, err, tt.want, tt.in)
	}
}

func TestAddAtTheLimits(t *testing.T) {
	tests := []struct {
		a, b, want string
		err        error
	}{
		{a: "12345678901234567890123456789012345678", b: "1", want: "12345678901234567890123456789012345679"},
		{a: "0.1", b: "0.2", want: "0.3"},
		{a: strings.Repeat("9", 38), b: "1", want: "1" + strings.Repeat("0", 38)},
		{a: strings.Repeat("9", 38), b: "0.1", err: ErrPrecision},
		{a: "1E100", b: "1", err: ErrPrecision},
		{a: "9E125", b: "1E125", err: ErrOverflow},
		{a: "9223372036854775807", b: "9223372036854775807", want: "18446744073709551614"},
		{a: "1.00000001E-125", b: "-1E-125", err: ErrUnderflow},
		{a: "5", b: "-5", want: "0"},
	}
	for _, tt := range tests {
		sum, err := number(t, tt.a).Add(number(t, tt.b))
		require.ErrorIs(t, err, tt.err, "%s + %s", tt.a, tt.b)
		if tt.err == nil {
			require.Equal(t, tt.want, sum.String())
		}
	}
}

// rational is what s means.
func rational(t require.TestingT, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	require.True(t, ok, s)
	return r
}

// isExact reports whether r is a decimal of at most 38 digits in range.
func isExact(r *big.Rat) bool {
	if r.Sign() == 0 {
		return true
	}
	scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(300), nil)))
	if !scaled.IsInt() {
		return false
	}
	text := new(big.Int).Abs(scaled.Num()).String()
	lead := len(text) - 1 - 300
	return len(strings.TrimRight(text, "0")) <= 38 && lead <= maxExponent && lead >= minExponent
}

// checkArithmetic compares all operations on two numbers with math/big.
func checkArithmetic(t require.TestingT, a, b string) {
	x, errX := ParseNumber(a)
	y, errY := ParseNumber(b)
	if errX != nil || errY != nil {
		return
	}
	rx, ry := rational(t, a), rational(t, b)
	require.Zero(t, rational(t, x.String()).Cmp(rx), "%s reads as %s", a, x)
	require.Equal(t, rx.Cmp(ry), x.Compare(y), "%s ? %s", a, b)
	require.Equal(t, rx.Cmp(ry) == 0, x == y, "%s == %s", a, b)
	for _, op := range []struct {
		got  func(Number) (Number, error)
		want *big.Rat
	}{{x.Add, new(big.Rat).Add(rx, ry)}, {x.Sub, new(big.Rat).Sub(rx, ry)}} {
		sum, err := op.got(y)
		require.Equal(t, isExact(op.want), err == nil, "%s, %s: %v", a, b, err)
		if err == nil {
			require.Zero(t, rational(t, sum.String()).Cmp(op.want), "%s, %s: %s", a, b, sum)
			require.Equal(t, number(t, sum.String()), sum, "normal form")
		}
	}
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "1", "-1.5", "1e20", "9007199254740993", "12345678901234567890123456789012345678", "9.9E125", "1E-130", "0.1"} {
		f.Add(s, "1")
		f.Add("-0.2", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > 200 || len(b) > 200 {
			return
		}
		checkArithmetic(t, a, b)
	})
}

func TestNumberAgainstBig(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		s := rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{0,18})?`).Draw(t, "digits")
		if rapid.Bool().Draw(t, "scaled") {
			s += rapid.StringMatching(`e-?[0-9]{1,2}`).Draw(t, "exponent")
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) { checkArithmetic(t, text.Draw(t, "a"), text.Draw(t, "b")) })
}

func TestInt64(t *testing.T) {
	tests := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"12.9", 12, true},
		{"-12.9", -12, true},
		{"1700000000", 1700000000, true},
		{"9223372036854775807", 1<<63 - 1, true},
		{"9223372036854775808", 0, false},
		{"1E30", 0, false},
	}
	for _, tt := range tests {
		got, ok := number(t, tt.in).Int64()
		require.Equal(t, tt.ok, ok, tt.in)
		if ok {
			require.Equal(t, tt.want, got, tt.in)
		}
	}
}
