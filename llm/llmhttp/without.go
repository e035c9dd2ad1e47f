package llmhttp

import (
	"bytes"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"
)

// maxHeld is the most bytes of an event that are held until it is known whether the caller requested
// it: the event with the usage is shorter.
const maxHeld = 64 << 10

// without is the stream of an answer without the event of a usage that the caller did not
// request. It passes complete events on.
type without struct {
	body   *answer
	held   []byte // of an event that is not whole
	ready  []byte // to be passed on
	passed int    // how much of ready was
	long   bool   // the event is longer than is held; it is passed on
	err    error
}

// Read returns bytes of complete events, without the event of the usage. After the body's end it returns the
// incomplete rest as it is. It reads from the answer, which so settles the call.
func (w *without) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for w.passed == len(w.ready) && w.err == nil {
		n, err := w.body.Read(p)
		w.takeBytes(p[:n])
		if err != nil {
			w.ready, w.held, w.err = append(w.ready, w.held...), nil, err
		}
	}
	n := copy(p, w.ready[w.passed:])
	w.passed += n
	if n == 0 {
		return 0, w.err
	}
	return n, nil
}

// Close closes the answer, which settles its call, and returns the body's error.
func (w *without) Close() error { return w.body.Close() }

// takeBytes appends arrived bytes to w.held and moves complete events from there to w.ready, for Read. It moves
// an event above 64 KiB in pieces.
func (w *without) takeBytes(b []byte) {
	w.held = append(w.held, b...)
	n := wholeEvents(w.held, len(b))
	w.ready, w.passed = w.ready[:0], 0
	w.releaseEvents(w.held[:n])
	w.held = append(w.held[:0], w.held[n:]...)
	w.long = w.long && n == 0 || len(w.held) > maxHeld
	if w.long {
		w.ready, w.held = append(w.ready, w.held...), w.held[:0]
	}
}

// releaseEvents appends complete events to w.ready, for Read, except for an event with only the usage.
func (w *without) releaseEvents(events []byte) {
	for bytes.Contains(events, promptTokens) {
		n := firstEvent(events)
		if w.long || !isUsageOnly(events[:n]) {
			w.ready = append(w.ready, events[:n]...)
		}
		w.long, events = false, events[n:]
	}
	w.ready = append(w.ready, events...)
}

// firstEvent returns the length of the first event in b, with the empty line behind it. There must be a
// complete event.
func firstEvent(b []byte) int {
	for n := 0; ; {
		line := 1 + bytes.IndexByte(b[n:], '\n')
		n += line
		if line <= len("\r\n") && endsBlank(b[:n]) {
			return n
		}
	}
}

// wholeEvents returns the length of the complete events in b, 0 if there is none. It searches for their end
// only in the last news bytes, which have just arrived.
func wholeEvents(b []byte, news int) int {
	for n := len(b); n > len(b)-news; n = 1 + bytes.LastIndexByte(b[:n-1], '\n') {
		if endsBlank(b[:n]) {
			return n
		}
	}
	return 0
}

// endsBlank reports whether a text ends with an empty line.
func endsBlank(b []byte) bool {
	return bytes.HasSuffix(b, []byte("\n\n")) || bytes.HasSuffix(b, []byte("\n\r\n")) || string(b) == "\n" || string(b) == "\r\n"
}

// isUsageOnly reports whether an event holds a usage and nothing else: no error, and no choices with content.
// An empty choice, which LiteLLM adds, does not count.
func isUsageOnly(event []byte) bool {
	data, ok := bytes.CutPrefix(bytes.TrimLeft(event, "\r\n"), []byte("data:"))
	if !ok {
		return false
	}
	more, usage := 0, false
	s := jsonscan.New(usageEvent, jsonscan.Options{}, func(e jsonscan.Event) error {
		switch {
		case e.Kind == jsonscan.End, e.Kind == jsonscan.Null, e.Path == choiceIndex:
		case e.Path == usageItself:
			usage = usage || e.Kind == jsonscan.Object
		case e.Path == choiceItself || e.Path == choiceDelta:
			if e.Kind != jsonscan.Object {
				more++
			}
		default:
			more++
		}
		return nil
	})
	if _, err := s.Write(bytes.TrimSpace(data)); err != nil || s.Close() != nil {
		return false
	}
	return usage && more == 0
}

// promptTokens is in each usage, and in few other events, so those need no second reading.
var promptTokens = []byte(`"prompt_tokens"`)

var usageEvent = jsonscan.Compile("usage", "choices[]", "choices[].index", "choices[].delta", "choices[].delta.*", "choices[].*", "error")

const usageItself, choiceItself, choiceIndex, choiceDelta = 0, 1, 2, 3 // of usageEvent
