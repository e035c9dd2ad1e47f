// Package framing reads the streams in which providers send their replies, beside whoever relays
// them: server-sent events and the event streams of AWS. Bytes are pushed in as they arrive, cut
// anywhere; what an event carries is handed on at once, and no event is ever held as a whole.
package framing

// Sink hears the events of a stream. An event that is never whole has a Begin and no End.
type Sink interface {
	// Begin hears that an event starts: in SSE at its first data line, with the name if that
	// stood before; in a stream of AWS after its headers.
	Begin(e Head)
	// Data hears some of what the event carries, at least one byte. b is valid during the call.
	Data(b []byte)
	// End hears that the event is whole.
	End(e Head)
}

// Head says what an event is. Each text is cut after 1 KiB.
type Head struct {
	// Name is the field event of SSE; of AWS :event-type, :exception-type or :error-code.
	Name string
	// Exception says that the :message-type of AWS is exception or error.
	Exception bool
}

// maxText is how much is kept of a text.
const maxText = 1 << 10

// text is a short text that arrives in pieces.
type text struct {
	buf []byte
	was string
}

func (t *text) clear() { t.buf = t.buf[:0] }

func (t *text) add(p []byte) { t.buf = append(t.buf, p[:min(len(p), maxText-len(t.buf))]...) }

// String is the text. One that was the last one, too, costs nothing.
func (t *text) String() string {
	if string(t.buf) != t.was {
		t.was = string(t.buf)
	}
	return t.was
}
