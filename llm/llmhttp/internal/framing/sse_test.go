package framing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/framing"
)

func TestSSE(t *testing.T) {
	long := strings.Repeat("e", 1_100)
	for stream, want := range map[string][]heard{
		"":                                     nil,
		"data: 1\n\n":                          {{data: "1"}},
		"data:1\n\ndata:  2\n\n":               {{data: "1"}, {data: " 2"}},
		"data: 1\r\rdata: 2\r\n\r\n":           {{data: "1"}, {data: "2"}},
		"\r\n\ndata: 1\n\r\ndata: 2":           {{data: "1"}},
		"data: 1\ndata\ndata: 3\n\n":           {{data: "1\n\n3"}},
		"data\n\ndata:\n\ndata: \n\n":          {{}, {}, {}},
		"\xEF\xBB\xBFdata: 1\n\n":              {{data: "1"}},
		"\xEF\xBBdata: 1\n\ndata: 2\n\n":       {{data: "2"}},
		"\xEF\xBB\xBF\xEF\xBB\xBFdata: 1\n\n":  nil,
		"\n\xEF\xBB\xBFdata: 1\n\n":            nil,
		": ping\n\n:\ndata: 1\n:\ndata: 2\n\n": {{data: "1\n2"}},
		"id: 7\nretry: 10\ndata: 1\nx\ndatas: 2\n data: 3\nData: 4\n\n": {{data: "1"}},
		"event: ping\n\ndata: 1\n\n":                                    {{data: "1"}},
		"event: a\ndata: 1\n\ndata: 2\n\n":                              {{framing.Head{Name: "a"}, "1"}, {data: "2"}},
		"data: 1\nevent: a\nevent:b\n\n":                                {{framing.Head{Name: "b"}, "1"}},
		"event: a\nevent\ndata: 1\n\n":                                  {{data: "1"}},
		"event: " + long + "\ndata: 1\n\n":                              {{framing.Head{Name: long[:1<<10]}, "1"}},
		"data: a:b\ndata: é\x00\n\n":                                    {{data: "a:b\né\x00"}},
	} {
		events, err := everySplit(t, sse, []byte(stream))
		require.NoError(t, err)
		require.Equal(t, want, events, "%q", stream)
	}
}

// begins notes the name that an event began with.
type begins struct {
	counter
	names []string
}

func (b *begins) Begin(e framing.Head) { b.names = append(b.names, e.Name) }

// TestSSEBegins as soon as data can come, with the name that is known by then.
func TestSSEBegins(t *testing.T) {
	b := &begins{}
	r := framing.NewSSE(b)
	for _, c := range []struct {
		piece string
		names []string
	}{
		{"event: a\ndata", nil},
		{":", []string{"a"}},
		{"1\ndata: 2\n\n", []string{"a"}},
		{"data: 3\nevent: b\n\n", []string{"a", ""}},
	} {
		_, err := r.Write([]byte(c.piece))
		require.NoError(t, err)
		require.Equal(t, c.names, b.names, c.piece)
	}
}

// lines is the text of the WHATWG, on a stream that is whole: the reference of the fuzz test.
func lines(stream string) []heard {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	all := strings.Split(stream, "\n")
	var events []heard
	var name, data string
	for _, line := range all[:len(all)-1] {
		if line == "" {
			if data != "" {
				events = append(events, heard{framing.Head{Name: name}, strings.TrimSuffix(data, "\n")})
			}
			name, data = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data += value + "\n"
		case "event":
			name = value[:min(len(value), 1<<10)]
		}
	}
	return events
}

func FuzzSSE(f *testing.F) {
	for _, seed := range []string{"event: a\r\ndata: 1\rdata:2\n\n", "\xEF\xBB\xBF:c\n\ndata\n\n"} {
		f.Add(seed, uint(3))
	}
	f.Fuzz(func(t *testing.T, stream string, cut uint) {
		at := int(cut % uint(len(stream)+1))
		events, err := read(t, sse, []byte(stream[:at]), []byte(stream[at:]))
		require.NoError(t, err)
		require.Equal(t, lines(stream), events)
	})
}
