package jsonscan

import (
	"bytes"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
