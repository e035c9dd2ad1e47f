package llmhttp

import (
	"bytes"
	"io"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"
)

// maxHeld is how many bytes of an event are held until it is known whether the caller asked for
// it: the event with the usage is shorter.
const maxHeld = 64 << 10

// without is the stream of an answer without the event of the usage that the caller did not ask
// for. An event is passed on when it is whole.
type without struct {
	body  *answer
	held  []byte // of an event that is not whole
	ready []byte // to be passed on
	long  bool   // the event is longer than is held; it is passed on
	err   error
}

func newWithout(body *answer) io.ReadCloser { return &without{body: body} }

// Read passes on the events that are whole.
func (w *without) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(w.ready) == 0 && w.err == nil {
		n, err := w.body.Read(p)
		w.take(p[:n])
		if err != nil {
			w.ready, w.held, w.err = append(w.ready, w.held...), nil, err
		}
	}
	n := copy(p, w.ready)
	w.ready = w.ready[n:]
	if n == 0 {
		return 0, w.err
	}
	return n, nil
}

// Close closes the answer.
func (w *without) Close() error { return w.body.Close() }

// take holds what arrives, and lets go what is whole.
func (w *without) take(b []byte) {
	w.ready = w.ready[:0]
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		line := b
		if i >= 0 {
			line = b[:i+1]
		}
		b = b[len(line):]
		w.held = append(w.held, line...)
		switch whole := blank(w.held); {
		case whole && !w.long && usageAlone(w.held):
			w.held = w.held[:0]
		case whole || w.long || len(w.held) > maxHeld:
			w.ready = append(w.ready, w.held...)
			w.held, w.long = w.held[:0], !whole
		}
	}
}

// blank reports whether a text ends with an empty line.
func blank(b []byte) bool {
	return bytes.HasSuffix(b, []byte("\n\n")) || bytes.HasSuffix(b, []byte("\n\r\n")) || string(b) == "\n" || string(b) == "\r\n"
}

// usageAlone reports whether an event holds a usage, and neither choices nor an error.
func usageAlone(event []byte) bool {
	data, ok := bytes.CutPrefix(bytes.TrimLeft(event, "\r\n"), []byte("data:"))
	if !ok || !bytes.Contains(data, promptTokens) {
		return false
	}
	choices, usage := 0, false
	s := jsonscan.New(usageEvent, jsonscan.Options{}, func(e jsonscan.Event) error {
		switch {
		case e.Path != 1 && e.Kind != jsonscan.End && e.Kind != jsonscan.Null:
			choices++
		case e.Path == 1 && e.Kind == jsonscan.Object:
			usage = true
		}
		return nil
	})
	if _, err := s.Write(bytes.TrimSpace(data)); err != nil || s.Close() != nil {
		return false
	}
	return usage && choices == 0
}

// promptTokens is in each usage, and in few events else: those need not be read once more.
var promptTokens = []byte(`"prompt_tokens"`)

var usageEvent = jsonscan.Compile("choices[]", "usage", "error")
