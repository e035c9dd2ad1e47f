package framing_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/framing"
)

// heard is an event as a sink heard it.
type heard struct {
	head framing.Head
	data string
}

// sink gathers events, and fails the test where their order is wrong.
type sink struct {
	t      require.TestingT
	within bool
	data   []byte
	events []heard
}

func (s *sink) Begin(framing.Head) {
	require.False(s.t, s.within, "an event begins within another")
	s.within, s.data = true, nil
}

func (s *sink) Data(b []byte) {
	require.True(s.t, s.within && len(b) > 0, "data is of an event, and is some")
	s.data = append(s.data, b...)
}

func (s *sink) End(e framing.Head) {
	require.True(s.t, s.within, "what ends has begun")
	s.within = false
	s.events = append(s.events, heard{e, string(s.data)})
}

// reader is what both readers are.
type reader interface {
	Write(b []byte) (int, error)
}

func sse(s framing.Sink) reader         { return framing.NewSSE(s) }
func eventStream(s framing.Sink) reader { return framing.NewEventStream(s) }

// read pushes pieces into a new reader.
func read(t require.TestingT, of func(framing.Sink) reader, pieces ...[]byte) (events []heard, err error) {
	s := &sink{t: t}
	r := of(s)
	for _, p := range pieces {
		var n int
		if n, err = r.Write(p); err != nil {
			break
		}
		require.Equal(t, len(p), n)
	}
	return s.events, err
}

// everySplit checks that a stream is read alike wherever it is cut in two, and byte by byte.
func everySplit(t require.TestingT, of func(framing.Sink) reader, stream []byte) ([]heard, error) {
	events, err := read(t, of, stream)
	same := func(pieces ...[]byte) {
		e, failed := read(t, of, pieces...)
		require.Equal(t, events, e, "%q", pieces)
		require.Equal(t, err, failed, "%q", pieces)
	}
	bytes := make([][]byte, len(stream))
	for i := range stream {
		same(stream[:i], stream[i:])
		bytes[i] = stream[i : i+1]
	}
	same(bytes...)
	return events, err
}

// counter is a sink that keeps nothing.
type counter struct{ events, bytes int }

func (*counter) Begin(framing.Head)   {}
func (c *counter) Data(b []byte)      { c.bytes += len(b) }
func (c *counter) End(_ framing.Head) { c.events++ }

// TestNothingIsBuffered reads one event of many megabytes, a piece at a time.
func TestNothingIsBuffered(t *testing.T) {
	const size = 32 << 20
	line := append(append([]byte("data: "), bytes.Repeat([]byte("x"), size)...), "\n\n"...)
	frame := message(text(":event-type", "chunk"), bytes.Repeat([]byte("x"), size/2)) // 24 MiB are the most
	for name, c := range map[string]struct {
		of     func(framing.Sink) reader
		stream []byte
		size   int
	}{"SSE": {sse, line, size}, "AWS": {eventStream, frame, size / 2}} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			heard := &counter{}
			r := c.of(heard)
			for piece := range slices.Chunk(c.stream, 32<<10) {
				if _, err := r.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			runtime.ReadMemStats(&after)
			require.Equal(t, counter{1, c.size}, *heard)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
		})
	}
}

// TestEventsCostNoMemory reads events whose names were there before.
func TestEventsCostNoMemory(t *testing.T) {
	for name, c := range map[string]struct {
		of     func(framing.Sink) reader
		stream []byte
	}{
		"SSE": {sse, []byte("event: content_block_delta\ndata: {}\ndata: {}\n\n")},
		"AWS": {eventStream, message(text(":event-type", "chunk")+text(":content-type", "application/json")+text(":message-type", "event"), []byte("{}"))},
	} {
		r := c.of(&counter{})
		require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = r.Write(c.stream) }), name)
	}
}

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

// text is a header of a text.
func text(name, value string) string {
	return string(rune(len(name))) + name + "\x07" + string(binary.BigEndian.AppendUint16(nil, uint16(len(value)))) + value
}

// message is a whole message.
func message(headers string, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// lengths is a prelude that says what it likes.
func lengths(total, headers uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, total)
	b = binary.BigEndian.AppendUint32(b, headers)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// TestEventStreamOfAWS reads the frames that the AWS SDK for Go tests its own reader with
// (aws/protocol/eventstream/testdata, Apache-2.0).
func TestEventStreamOfAWS(t *testing.T) {
	for name, c := range map[string]struct {
		frame string
		want  []heard
		err   error
	}{
		"all headers":             {"AAAAzAAAAK8PrmTKCmV2ZW50LXR5cGUEAACgDAxjb250ZW50LXR5cGUHABBhcHBsaWNhdGlvbi9qc29uCmJvb2wgZmFsc2UBCWJvb2wgdHJ1ZQAEYnl0ZQLPCGJ5dGUgYnVmBgAUSSdtIGEgbGl0dGxlIHRlYXBvdCEJdGltZXN0YW1wCAAAAAAAhF/tBWludDE2AwAqBWludDY0BQAAAAACh1eyBHV1aWQJAQIDBAUGBwgJCgsMDQ4PEHsnZm9vJzonYmFyJ32rpfEM", []heard{{data: "{'foo':'bar'}"}}, nil},
		"empty message":           {"AAAAEAAAAAAFwkjrfZjI/w==", []heard{{}}, nil},
		"int32 header":            {"AAAALQAAABBBxCS4CmV2ZW50LXR5cGUEAACgDHsnZm9vJzonYmFyJ3029ICg", []heard{{data: "{'foo':'bar'}"}}, nil},
		"no headers":              {"AAAAHQAAAAD9Uoxaeydmb28nOidiYXInfcNlOTY=", []heard{{data: "{'foo':'bar'}"}}, nil},
		"one header":              {"AAAAPQAAACAH/YOWDGNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb257J2Zvbyc6J2Jhcid9jZwIsQ==", []heard{{data: "{'foo':'bar'}"}}, nil},
		"corrupted header length": {"AAAAPQAAACEH/YOWDGNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb257J2Zvbyc6J2Jhcid9jZwIsQ==", nil, framing.ErrCRC},
		"corrupted headers":       {"AAAAPQAAACAH/YOWDGNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb257YWZvbyc6J2Jhcid9jZwIsQ==", nil, framing.ErrCRC},
		"corrupted length":        {"AAAAPgAAACAH/YOWDGNvbnRlbnQtdHlwZQcAEGFwcGxpY2F0aW9uL2pzb257J2Zvbyc6J2Jhcid9jZwIsQ==", nil, framing.ErrCRC},
		"corrupted payload":       {"AAAAHQAAAAD9UoxaWydmb28nOidiYXInfcNlOTY=", nil, framing.ErrCRC},
	} {
		frame, err := base64.StdEncoding.DecodeString(c.frame)
		require.NoError(t, err)
		events, err := everySplit(t, eventStream, frame)
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, c.want, events, name)
	}
}

func TestEventStream(t *testing.T) {
	long := strings.Repeat("e", 1_100)
	event := text(":message-type", "event")
	first := message(event+text(":event-type", "chunk")+text(":content-type", "application/json"), []byte("{}"))
	heardFirst := heard{framing.Head{Name: "chunk"}, "{}"}
	for name, c := range map[string]struct {
		then []byte // after the first message
		want []heard
		err  error
	}{
		"nothing":                  {nil, nil, nil},
		"a message":                {message("", nil), []heard{{}}, nil},
		"an exception":             {message(text(":message-type", "exception")+text(":exception-type", "throttlingException"), []byte("{}")), []heard{{framing.Head{Name: "throttlingException", Exception: true}, "{}"}}, nil},
		"an error":                 {message(text(":error-code", "InternalError")+text(":message-type", "error"), nil), []heard{{head: framing.Head{Name: "InternalError", Exception: true}}}, nil},
		"a name that is no text":   {message("\x0b:event-type\x06\x00\x01x", nil), []heard{{}}, nil},
		"a name twice":             {message(text(":event-type", "a")+text(":event-type", "b"), nil), []heard{{head: framing.Head{Name: "b"}}}, nil},
		"an empty text":            {message(text(":event-type", ""), []byte("1")), []heard{{data: "1"}}, nil},
		"long texts":               {message(text(":event-type", long)+text("x", long), nil), []heard{{head: framing.Head{Name: long[:1<<10]}}}, nil},
		"a message cut off":        {first[:len(first)-1], nil, nil},
		"a header beyond the rest": {message("\x01x\x07\x00\x09x", []byte("12345678")), nil, framing.ErrFrame},
		"a name beyond the rest":   {message("\x09x", []byte("12345678")), nil, framing.ErrFrame},
		"no type":                  {message("\x01x", nil), nil, framing.ErrFrame},
		"an unknown type":          {message("\x01x\x0a", nil), nil, framing.ErrFrame},
		"no room for checksums":    {lengths(15, 0), nil, framing.ErrFrame},
		"no room for headers":      {lengths(20, 5), nil, framing.ErrFrame},
		"too long":                 {lengths(24<<20+1, 0), nil, framing.ErrFrame},
		"too many headers":         {lengths(1<<20, 128<<10+1), nil, framing.ErrFrame},
		"as long as can be":        {lengths(24<<20, 128<<10), nil, nil},
	} {
		events, err := everySplit(t, eventStream, append(first[:len(first):len(first)], c.then...))
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, append([]heard{heardFirst}, c.want...), events, name)
	}
}

// TestEventStreamStaysBroken after the first mistake, whatever comes.
func TestEventStreamStaysBroken(t *testing.T) {
	heard := &counter{}
	r := framing.NewEventStream(heard)
	_, err := r.Write(lengths(1, 0))
	require.ErrorIs(t, err, framing.ErrFrame)
	n, err := r.Write(message("", nil))
	require.ErrorIs(t, err, framing.ErrFrame)
	require.Zero(t, n)
	require.Zero(t, *heard)
}

// headersOf reads a block of headers that is whole: the reference of the fuzz test.
func headersOf(b string) (head framing.Head, ok bool) {
	for len(b) > 0 {
		n := int(b[0])
		if n+1 >= len(b) {
			return head, false
		}
		name, kind, size := b[1:n+1], b[n+1], 0
		b = b[n+2:]
		switch kind {
		case 0, 1:
		case 2:
			size = 1
		case 3:
			size = 2
		case 4:
			size = 4
		case 5, 8:
			size = 8
		case 9:
			size = 16
		case 6, 7:
			if len(b) < 2 {
				return head, false
			}
			size = int(b[0])<<8 + int(b[1])
			b = b[2:]
		default:
			return head, false
		}
		if size > len(b) {
			return head, false
		}
		value := b[:min(size, 1<<10)]
		b = b[size:]
		if kind != 7 {
			continue
		}
		switch name {
		case ":message-type":
			head.Exception = value == "exception" || value == "error"
		case ":event-type", ":exception-type", ":error-code":
			head.Name = value
		}
	}
	return head, true
}

// FuzzEventStream reads a message with any headers and payload, then with one bit wrong, then any
// bytes at all.
func FuzzEventStream(f *testing.F) {
	f.Add(text(":event-type", "chunk")+"\x01x\x09"+strings.Repeat("u", 16), []byte("{}"), uint(9), uint(70))
	f.Add("\x01x\x03\x00", []byte("{}"), uint(9), uint(70))
	f.Fuzz(func(t *testing.T, headers string, payload []byte, cut, wrong uint) {
		frame := message(headers, payload)
		at, bit := int(cut%uint(len(frame)+1)), wrong%uint(8*len(frame))
		events, err := read(t, eventStream, frame[:at], frame[at:])
		if head, ok := headersOf(headers); ok {
			require.NoError(t, err)
			require.Equal(t, []heard{{head, string(payload)}}, events)
		} else {
			require.ErrorIs(t, err, framing.ErrFrame)
			require.Empty(t, events)
		}
		frame[bit/8] ^= 1 << (bit % 8)
		events, err = read(t, eventStream, frame[:at], frame[at:])
		require.Error(t, err)
		require.Empty(t, events)
		_, err = read(t, eventStream, payload)
		require.True(t, err == nil || errors.Is(err, framing.ErrCRC) || errors.Is(err, framing.ErrFrame))
	})
}
