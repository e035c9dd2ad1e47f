package framing_test

import (
	"bytes"
	"runtime"
	"slices"
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
