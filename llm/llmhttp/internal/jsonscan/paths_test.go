package jsonscan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPaths has one path of each form, and what is near it and is not on it.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		name, paths, input, want string
	}{
		{"a key", "max_tokens", `{"max_tokens":5}`, `0 number "5" 1`},
		{"case", "max_tokens", `{"Max_tokens":5,"max_to` + "\u212a" + `ens":6,"max_tokens ":7}`, ``},
		{"escapes in a key", "max_tokens", `{"max_\u0074okens":5}`, `0 number "5" 1`},
		{"elsewhere", "max_tokens", `{"x":{"max_tokens":5},"y":[{"max_tokens":6}]}`, ``},
		{"the beginning of a key", "max", `{"max_tokens":5,"ma":6}`, ``},
		{"below", "usage.in usage.out", `{"usage":{"out":2,"in":1}}`, `1 number "2" 1; 0 number "1" 1`},
		{"null in its place", "usage.in", `{"usage":null}`, ``},
		{"an array in place of an object", "usage.in", `{"usage":[{"in":1}]}`, ``},
		{"an object in place of an array", "a[].b", `{"a":{"b":1}}`, ``},
		{"a path and its beginning", "usage usage.in", `{"usage":{"in":1,"x":{}}}`, `0 object; 1 number "1" 1; 0 end`},
		{"two spellings", "g|generation.m|max", `{"g":{"m":1},"generation":{"max":2}}`, `0 number "1" 1; 0 number "2" 1`},
		{"elements", "a[].b", `{"a":[{"b":1},2,{"c":3},{"b":"x"}]}`, `0 number "1" 1; 0 string "x" 1`},
		{"elements that are values", "a a[]", `{"a":[null,[false]]}`, `0 array; 1 null; 1 array; 1 end; 0 end`},
		{"elements of elements", "a[][]", `{"a":[[true],[]]}`, `0 true`},
		{"a whole array", "[].b", `[{"b":1},{"b":2}]`, `0 number "1" 1; 0 number "2" 1`},
		{"any depth", "**.u", `{"u":1,"x":[{"y":{"u":"2"}},[{"u":{"u":3}}]]}`, `0 number "1" 1; 0 string "2" 1; 0 object; 0 number "3" 1; 0 end`},
		{"any depth, below a key", "**.s.u", `{"x":{"u":1,"s":{"u":2,"s":[{"s":{"v":4,"u":3}}]}}}`, `0 number "2" 1; 0 number "3" 1`},
		{"any depth, and a path at the same key", "a[].u **.u", `{"a":[{"u":1},{"b":{"u":2}}],"u":3}`, `0 number "1" 1; 1 number "2" 1; 1 number "3" 1`},
		{"any depth, two spellings", "**.u|v", `{"a":{"u":1,"v":2}}`, `0 number "1" 1; 0 number "2" 1`},
		{"other keys", "t[].* t[].type", `{"t":[{"a":{"b":1},"type":"x","c":null}],"d":2}`, `0 object; 0 end; 1 string "x" 1; 0 null`},
		{"below other keys", "t.*.u", `{"t":{"a":{"u":1},"b":{"v":2,"u":3},"u":4}}`, `0 number "1" 1; 0 number "3" 1`},
		{"escapes in a string", "s", `{"s":"a\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00"}`, `0 string "a\"\\/\b\f\n\r\té😀" 35`},
		{"the first and last pairs", "s", `{"s":"\ud800\udc00\udbff\udfff\ud7ff\ue000"}`, `0 string "` + "\U00010000" + `\U0010ffff\ud7ff\ue000" 36`},
		{"an empty string", "s", `{"s":""}`, `0 string "" 0`},
		{"cut", "s n", `{"s":"123456789 123456789 123","n":1.34567890123456789012}`, `0 string "123456789 123456789 " 23; 1 number "1.345678901234567890" 22`},
		{"a number as written", "n", `{"n":-12.50E+02}`, `0 number "-12.50E+02" 10`},
		{"twice", "n a.n", `{"n":1,"n":2,"a":{"n":3},"a":{"n":4}}`, `0 number "1" 1; 0 number "2" 1; 1 number "3" 1; 1 number "4" 1`},
		{"half a pair", "s", `{"s":"\ud83dx\ude00\ud83d"}`, `0 string "` + "\ufffdx\ufffd\ufffd" + `" 19`},
		{"a mark", "a", "\xef\xbb\xbf {\"a\":1}", `0 number "1" 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(t, Compile(strings.Fields(c.paths)...), Options{Capture: 20}, c.input, 3)
			require.NoError(t, got.err)
			var events []string
			for _, e := range got.events {
				line := fmt.Sprint(e.Path, " ", [...]string{"null", "false", "true", "number", "string", "object", "array", "end"}[e.Kind])
				if e.Kind == String || e.Kind == Number {
					line += fmt.Sprintf(" %q %d", e.Text, e.Len)
				}
				events = append(events, line)
			}
			require.Equal(t, c.want, strings.Join(events, "; "))
		})
	}
}

// TestOtherKeysAreNamed, cut where they are long, however the value arrives and is read.
func TestOtherKeysAreNamed(t *testing.T) {
	long := strings.Repeat("k", longestOther)
	input := `{"t":[{"a":"x","known":1,"b\u0063":[{"z":2}],"` + long + `y":{}}]}`
	for _, strict := range []bool{false, true} {
		for size := 1; size <= len(input); size += 7 {
			var keys []string
			s := New(Compile("t[].*", "t[].known"), Options{Strict: strict}, func(e Event) error {
				if e.Path == 0 && e.Kind != End {
					keys = append(keys, string(e.Key))
				}
				return nil
			})
			for rest := input; rest != ""; {
				n := min(size, len(rest))
				_, err := s.Write([]byte(rest[:n]))
				require.NoError(t, err)
				rest = rest[n:]
			}
			require.NoError(t, s.Close())
			require.Equal(t, []string{"a", "bc", long}, keys)
		}
	}
}

// TestKeysAtAnyDepthMayBeTwice also in strict reading: each is reported.
func TestKeysAtAnyDepthMayBeTwice(t *testing.T) {
	found := 0
	s := New(Compile("**.s.u", "a"), Options{Strict: true}, func(Event) error { found++; return nil })
	_, err := s.Write([]byte(`{"x":{"s":{"u":1,"u":2},"s":{"u":3}}}`))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Equal(t, 3, found)
	s.Reset()
	_, err = s.Write([]byte(`{"a":1,"a":2}`))
	require.Error(t, err)
}

func TestCompileRefuses(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprint("a.", i)
	}
	require.NotPanics(t, func() { Compile(many[:64]...) })
	for _, list := range [][]string{
		many,
		{""},
		{"a", "a"},
		{"**.a", "**.a"},
		{"a.*", "a.*"},
		{"**."},
		{"a."},
		{".a"},
		{"a..b"},
		{"a.[]"},
		{"a|"},
		{"a|a"},
		{"a|b.c", "a.d"},
		{"a|b.c", "b|a.d"},
		{"a]"},
		{"a["},
		{"a[]b"},
		{"a[0]"},
		{"a[[]]"},
		{"[]a"},
		{"\xff"},
	} {
		require.Panics(t, func() { Compile(list...) }, "%q", list)
	}
}

func TestInt(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "9007199254740992": 1 << 53, "1000": 1000} {
		n, err := Event{Kind: Number, Text: []byte(text), Len: int64(len(text))}.Int()
		require.NoError(t, err, text)
		require.Equal(t, want, n)
	}
	for _, text := range []string{"", "5.0", "1e5", "1E5", "-1", "-0", "01", "00", "+1", "9007199254740993", "9999999999999999", "10000000000000000000000", "1_0", " 1"} {
		_, err := Event{Kind: Number, Text: []byte(text)}.Int()
		require.Error(t, err, text)
	}
	_, err := Event{Kind: String, Text: []byte("5"), Len: 1}.Int()
	require.Error(t, err, "a string")
	_, err = Event{Kind: Number, Text: []byte("12"), Len: 3}.Int()
	require.Error(t, err, "cut")
}
