// Package framing reads the streams in which providers send their replies, while another party relays
// them: server-sent events and the event streams of AWS. Callers push bytes in as they arrive, cut
// anywhere. The package passes the payload of an event on at once, and never holds a whole event.
package framing

// Sink receives the events of a stream. An incomplete event has a Begin and no End.
type Sink interface {
	// Begin starts an event: in SSE at its first data line, with the name if that
	// came before; in a stream of AWS after its headers.
	Begin(e Head)
	// Data receives a part of the event's payload, at least one byte. b is valid during the call.
	Data(b []byte)
	// End completes the event.
	End(e Head)
}

// Head describes an event. Each text is cut after 1 KiB.
type Head struct {
	// Name is the field event of SSE; of AWS :event-type, :exception-type or :error-code.
	Name string
	// Exception is true if the :message-type of AWS is exception or error.
	Exception bool
}

// maxText is the longest kept text, in bytes.
const maxText = 1 << 10

// text is a short text that arrives in pieces.
type text struct {
	buf []byte
	was string
}

// clear empties the text and keeps its memory.
func (t *text) clear() { t.buf = t.buf[:0] }

// add appends p up to maxText bytes in all, and drops the rest.
func (t *text) add(p []byte) { t.buf = append(t.buf, p[:min(len(p), maxText-len(t.buf))]...) }

// String returns the text. A repeated text is not allocated again.
func (t *text) String() string {
	if string(t.buf) != t.was {
		t.was = string(t.buf)
	}
	return t.was
}
