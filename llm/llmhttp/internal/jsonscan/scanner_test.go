package jsonscan

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// seen is an event that outlives its call.
type seen struct {
	Path int
	Kind Kind
	Text string
	Len  int64
}

// reading is what a scanner made of an input.
type reading struct {
	events []seen
	err    error
}

// read writes input in pieces of so many bytes, twice, as the second time the start is known. It
// checks that the chunks are the strings, cut nowhere.
func read(t require.TestingT, p *Paths, o Options, input string, size int) reading {
	var r reading
	chunks := map[int]string{}
	o.Chunk = func(path int, b []byte) { chunks[path] += string(b) }
	s := New(p, o, func(e Event) error {
		r.events = append(r.events, seen{e.Path, e.Kind, string(e.Text), e.Len})
		if e.Kind == String {
			whole := chunks[e.Path]
			require.Equal(t, whole[:min(len(whole), o.Capture)], string(e.Text), "%q", input)
			delete(chunks, e.Path)
		}
		return nil
	})
	for range 2 {
		first := r
		r, chunks = reading{}, map[int]string{}
		s.Reset()
		r.err = write(s, input, size)
		if first.err != nil || first.events != nil {
			require.Equal(t, first, r, "%q again", input)
		}
	}
	return r
}

func write(s *Scanner, input string, size int) error {
	b := []byte(input)
	for len(b) > 0 {
		n := min(size, len(b))
		if _, err := s.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return s.Close()
}

// TestSyntax says where each mistake is, which is the same place in pieces of any size.
func TestSyntax(t *testing.T) {
	for _, c := range []struct {
		input  string
		offset int64
		reason string
		strict bool // refused in strict reading alone
	}{
		{input: ``, offset: 0, reason: "the value ends early"},
		{input: "  \n", offset: 3, reason: "the value ends early"},
		{input: `{"a":1`, offset: 6, reason: "the value ends early"},
		{input: `-`, offset: 1, reason: "the value ends early"},
		{input: `"a`, offset: 2, reason: "the value ends early"},
		{input: `tru`, offset: 3, reason: "the value ends early"},
		{input: `{"a":1} {"a":2}`, offset: 8, reason: "want nothing after the value"},
		{input: `{} x`, offset: 3, reason: "want nothing after the value"},
		{input: `1 2`, offset: 2, reason: "want nothing after the value"},
		{input: `{}}`, offset: 2, reason: "want nothing after the value"},
		{input: `{"a":1,}`, offset: 7, reason: "want a key"},
		{input: `{,}`, offset: 1, reason: "want a key or }"},
		{input: `{a:1}`, offset: 1, reason: "want a key or }"},
		{input: `{"a" 1}`, offset: 5, reason: "want a colon"},
		{input: `{"a":}`, offset: 5, reason: "want a value"},
		{input: `{"a":/**/1}`, offset: 5, reason: "want a value"},
		{input: `[1,]`, offset: 3, reason: "want a value"},
		{input: `[,]`, offset: 1, reason: "want a value or ]"},
		{input: `[}`, offset: 1, reason: "want a value or ]"},
		{input: `[1}`, offset: 2, reason: "want a comma or the end of the object or array"},
		{input: `[{]`, offset: 2, reason: "want a key or }"},
		{input: `{"a":null]`, offset: 9, reason: "want a comma or the end of the object or array"},
		{input: `["a" "b"]`, offset: 5, reason: "want a comma or the end of the object or array"},
		{input: `NaN`, offset: 0, reason: "want a value"},
		{input: `nil`, offset: 1, reason: "want null, false or true"},
		{input: `truee`, offset: 4, reason: "want nothing after the value"},
		{input: `01 `, offset: 1, reason: "not a number"},
		{input: `-a`, offset: 1, reason: "not a number"},
		{input: `1. `, offset: 2, reason: "not a number"},
		{input: `1e+ `, offset: 3, reason: "not a number"},
		{input: `0x1`, offset: 1, reason: "not a number"},
		{input: `+1`, offset: 0, reason: "want a value"},
		{input: "\"a\nb\"", offset: 2, reason: "control character in a string"},
		{input: "\"eight by\x00\"", offset: 9, reason: "control character in a string"},
		{input: `"\a"`, offset: 2, reason: "unknown escape"},
		{input: `"\u00g0"`, offset: 5, reason: "want four hexadecimal digits"},
		{input: "\"\\u001\x10\"", offset: 6, reason: "want four hexadecimal digits"},
		{input: " \xef\xbb\xbf1", offset: 1, reason: "want a value"},
		{strict: true, input: "\xef\xbb\xbf1", offset: 0, reason: "want a value"},
		{strict: true, input: `"\ud800"`, offset: 7, reason: "half of a surrogate pair"},
		{strict: true, input: `"\udc00"`, offset: 6, reason: "half of a surrogate pair"},
		{strict: true, input: `"\ud800a"`, offset: 7, reason: "half of a surrogate pair"},
		{strict: true, input: `"\ud800\n"`, offset: 8, reason: "half of a surrogate pair"},
		{strict: true, input: `"\ud800\ud800"`, offset: 12, reason: "half of a surrogate pair"},
		{strict: true, input: "[\"a\",\"b\xff\"]", offset: 5, reason: "the string that begins here is not UTF-8"},
		{strict: true, input: "{\"\xe2\x82\":1}", offset: 1, reason: "the string that begins here is not UTF-8"},
		{strict: true, input: "\"\xed\xa0\x80\"", offset: 0, reason: "the string that begins here is not UTF-8"},
	} {
		for size := range len(c.input) + 1 {
			for _, strict := range []bool{false, true} {
				got := read(t, Compile("a"), Options{Strict: strict}, c.input, size+1)
				if c.strict && !strict {
					require.NoError(t, got.err, "%q", c.input)
				} else {
					require.Equal(t, &SyntaxError{Offset: c.offset, Reason: c.reason}, got.err, "%q", c.input)
				}
			}
		}
	}
	for input, offset := range map[string]int64{"\xef\xbb\xbf": 3, "\xef\xbb1": 2, "\xef\xbb\xbf\xef\xbb\xbf1": 3} {
		var syntax *SyntaxError
		require.ErrorAs(t, read(t, Compile("a"), Options{}, input, 1).err, &syntax)
		require.Equal(t, offset, syntax.Offset, "a mark and no value")
	}
	require.EqualError(t, &SyntaxError{Offset: 7, Reason: "want a key"}, "jsonscan: at byte 7: want a key")
}

func TestDuplicates(t *testing.T) {
	p := Compile("max", "g|generation.top_p|topP", "a[].b", "a[].c.d")
	for input, want := range map[string]string{
		`{"max":1,"max":1}`:                          "max",
		`{"max":1,"m\u0061x":2}`:                     "max",
		`{"max":null,"x":0,"max":1}`:                 "max",
		`{"g":{},"generation":{}}`:                   "g",
		`{"g":1,"g":{}}`:                             "g",
		`{"g":{"topP":1,"top_p":1}}`:                 "g.top_p",
		`{"a":[{"b":1},{"b":1,"b":2}]}`:              "a[].b",
		`{"a":[{"c":{"d":1,"x":{},"d":1}}]}`:         "a[].c.d",
		`{"a":[{"c":{"d":1}},{"c":{"d":1},"c":[]}]}`: "a[].c",
		`{"a":[],"a":1}`:                             "a",
	} {
		got := read(t, p, Options{Strict: true}, input, 4)
		require.Equal(t, &DuplicateError{Path: want}, got.err, input)
		require.NoError(t, read(t, p, Options{}, input, 4).err, input)
	}
	for _, input := range []string{
		`{"x":1,"x":2,"y":{"max":1,"max":2},"max":1,"Max":2}`,
		`{"a":[{"b":1,"c":{"d":1}},{"b":1,"c":{"d":2}}],"g":{"a":1,"a":2}}`,
		`{"g":[{"top_p":1,"top_p":2}],"a":{"b":1,"b":2}}`,
	} {
		require.NoError(t, read(t, p, Options{Strict: true}, input, 4).err, input)
	}
	require.EqualError(t, &DuplicateError{Path: "g.top_p"}, "jsonscan: g.top_p is there twice")
}

func TestDepth(t *testing.T) {
	for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		deep := func(n int) string { return strings.Repeat(pair[0], n) + "0" + strings.Repeat(pair[1], n) }
		require.NoError(t, read(t, Compile("a"), Options{}, deep(1000), 999).err)
		require.ErrorIs(t, read(t, Compile("a"), Options{}, deep(1001), 999).err, ErrDepth)
	}
}

// TestFirstErrorStays wants an error of found to end the reading, until the next value.
func TestFirstErrorStays(t *testing.T) {
	enough := errors.New("enough")
	s := New(Compile("a"), Options{}, func(e Event) error {
		if string(e.Text) == "1" {
			return enough
		}
		return nil
	})
	n, err := s.Write([]byte(`{"a":1,"a":x`))
	require.Equal(t, 6, n, "up to the comma that ends the number")
	require.Equal(t, enough, err)
	n, err = s.Write([]byte(`}`))
	require.Zero(t, n)
	require.Equal(t, enough, err)
	require.Equal(t, enough, s.Close())

	s.Reset()
	n, err = s.Write([]byte(`{"a":2`))
	require.Equal(t, 6, n)
	require.NoError(t, err)
	early := s.Close()
	require.Error(t, early)
	_, err = s.Write([]byte(`}`))
	require.Equal(t, early, err, "what was closed early is not completed")

	s.Reset()
	require.NoError(t, write(s, "\t12.5e3 ", 9))
	s.Reset()
	require.NoError(t, write(s, "12.5e3", 2), "a number ends where the input does")
}

const mebibyte = 1 << 20

// TestLargeValues wants no memory for what is long: strings at paths and elsewhere, keys, numbers
// and white space.
func TestLargeValues(t *testing.T) {
	for _, c := range []struct {
		name, before, piece, after string
		size                       int // MiB
	}{
		{"a string at a path", `{"a":"`, "x", `","b":1}`, 32},
		{"a string of escapes at a path", `{"a":"`, `\u00e9\n`, `","b":1}`, 2},
		{"a string at none", `{"x":"`, "\u20ac", `","b":1}`, 32},
		{"a key", `{"`, "a", `":0,"b":1}`, 100},
		{"a number at a path", `{"a":1`, "0", `,"b":1}`, 8},
		{"keys", `{`, `"key":0,`, `"b":1}`, 2},
		{"elements", `{"c":[`, `{"d":1},`, `0],"b":1}`, 2},
		{"white space", ``, " ", `{"b":1}`, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			block := []byte(strings.Repeat(c.piece, 32<<10/len(c.piece)))
			given, found := 0, false
			o := Options{Strict: true, Chunk: func(_ int, b []byte) { given += len(b) }}
			s := New(Compile("a", "b", "c[].d"), o, func(e Event) error {
				found = found || e.Path == 1
				return nil
			})
			took := allocated(func() {
				_, err := s.Write([]byte(c.before))
				for n := 0; err == nil && n < c.size*mebibyte; n += len(block) {
					_, err = s.Write(block)
				}
				require.NoError(t, err)
				_, err = s.Write([]byte(c.after))
				require.NoError(t, err)
			})
			require.NoError(t, s.Close())
			require.True(t, found)
			require.Less(t, took, uint64(mebibyte))
			if c.piece == "x" {
				require.GreaterOrEqual(t, given, 32*mebibyte)
			}
		})
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

var answer = []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4.1","choices":[{"index":0,"delta":{"content":" fox \u00e9\ud83d\ude00"},"finish_reason":null}],"usage":{"prompt_tokens":12,"completion_tokens":3}}`)

func answers(o Options) *Scanner {
	return New(Compile("model", "choices[].delta.content", "usage.prompt_tokens", "usage.completion_tokens"), o, func(Event) error { return nil })
}

// TestNoAllocations wants none for one value after another.
func TestNoAllocations(t *testing.T) {
	s := answers(Options{Strict: true, Chunk: func(int, []byte) {}})
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, err := s.Write(answer[:100])
		require.NoError(t, err)
		_, err = s.Write(answer[100:])
		require.NoError(t, err)
		require.NoError(t, s.Close())
		s.Reset()
	}))
}

// TestReset wants the memory of a large value back.
func TestReset(t *testing.T) {
	s := New(Compile("long"), Options{Capture: mebibyte}, func(Event) error { return nil })
	long := `"` + strings.Repeat("x", mebibyte) + `"`
	require.NoError(t, write(s, `{"long":`+long+`,"":`+strings.Repeat("[", 900)+strings.Repeat("]", 900)+`}`, mebibyte))
	require.GreaterOrEqual(t, cap(s.text.b), mebibyte)
	s.Reset()
	require.LessOrEqual(t, cap(s.text.b)+cap(s.key.b)+cap(s.stack)*int(reflect.TypeFor[frame]().Size()), 64<<10)
}

func BenchmarkWrite(b *testing.B) {
	for name, input := range map[string][]byte{
		"event":          answer,
		"long string":    []byte(`{"x":"` + strings.Repeat("plain text ", 100_000) + `"}`),
		"long at a path": []byte(`{"model":"` + strings.Repeat("plain text ", 100_000) + `"}`),
		"long UTF-8":     []byte(`{"x":"` + strings.Repeat("\u65e5\u672c\u8a9e\u306e ", 100_000) + `"}`),
		"small objects":  append(append([]byte(`{"output":[`), bytes.Repeat([]byte(`{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"The quick brown fox jumps over the lazy dog."}]},`), 1000)...), `0]}`...),
	} {
		for mode, o := range map[string]Options{"loose": {}, "strict": {Strict: true}} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				b.SetBytes(int64(len(input)))
				b.ReportAllocs()
				s := answers(o)
				for b.Loop() {
					_, _ = s.Write(input)
					if err := s.Close(); err != nil {
						b.Fatal(err)
					}
					s.Reset()
				}
			})
		}
	}
}
