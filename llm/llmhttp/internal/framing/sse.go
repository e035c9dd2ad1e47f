package framing

import "bytes"

// SSE reads text/event-stream as the WHATWG has defined it: lines end in CR, LF or CRLF, an
// event's data lines are joined by LF, an event without one is dropped, a byte order mark and
// comments are skipped. It ignores the fields id and retry. Make it with NewSSE.
type SSE struct {
	sink Sink

	mark    int  // bytes of the byte order mark that were seen; len(byteOrderMark) after it
	afterCR bool // a LF that follows belongs to the line before

	at    place   // where in its line the next byte is
	name  [6]byte // the name of the line's field, as far as it matters
	n     int     // how much of it there is
	field field   // the field of the name
	value text    // of the field event

	event Head // of the current event
	begun bool // it has a data line
}

// place is the position of a byte in a line.
type place uint8

const (
	inName place = iota
	afterColon
	inValue
)

// field is the field of a line.
type field uint8

const (
	other field = iota // or a comment
	data
	event
)

const byteOrderMark = "\xEF\xBB\xBF"

// lineFeed joins data lines.
var lineFeed = []byte{'\n'}

// NewSSE makes a reader of server-sent events that reports events to a sink. Write feeds it.
func NewSSE(s Sink) *SSE { return &SSE{sink: s} }

// Write reads the next bytes of the stream and reports its events to the sink. It reads all of b and never
// fails.
func (s *SSE) Write(b []byte) (int, error) {
	lf := -1 // where the next LF is
	for i := 0; i < len(b); {
		if s.afterCR {
			s.afterCR = false
			if b[i] == '\n' {
				i++
				continue
			}
		}
		if lf < i {
			lf = i + countBefore(b[i:], '\n')
		}
		end := i + countBefore(b[i:lf], '\r')
		s.readLine(b[i:end])
		if end < len(b) {
			s.afterCR = b[end] == '\r'
			s.endLine()
		}
		i = end + 1
	}
	return len(b), nil
}

// readLine reads a piece of a line, without its end: it stores a field's name or an event's name, and passes
// data to the sink.
func (s *SSE) readLine(p []byte) {
	for ; s.at == inName && len(p) > 0; p = p[1:] {
		s.readNameByte(p[0])
	}
	if len(p) == 0 {
		return
	}
	if s.at == afterColon {
		s.at = inValue
		if p[0] == ' ' {
			p = p[1:]
		}
	}
	switch {
	case s.field == event:
		s.value.add(p)
	case s.field == data && len(p) > 0:
		s.sink.Data(p)
	}
}

// readNameByte reads a byte of a field's name, or the colon behind it, which ends the name. It skips a byte
// order mark at the beginning of the stream, and drops bytes of a name beyond six.
func (s *SSE) readNameByte(c byte) {
	if s.mark < len(byteOrderMark) {
		if c != byteOrderMark[s.mark] {
			s.mark = len(byteOrderMark)
		} else if s.mark++; s.mark == len(byteOrderMark) {
			s.n = 0
			return
		}
	}
	switch {
	case c == ':':
		s.endName()
	case s.n < len(s.name):
		s.name[s.n] = c
		s.n++
	}
}

// endName recognises the field of a complete name. For data it begins an event at the sink, or passes a line
// feed as its next data. It ignores fields other than data and event.
func (s *SSE) endName() {
	s.at = afterColon
	switch string(s.name[:s.n]) {
	case "data":
		s.field = data
		if s.begun {
			s.sink.Data(lineFeed)
			return
		}
		s.begun = true
		s.sink.Begin(s.event)
	case "event":
		s.field = event
		s.value.clear()
	}
}

// endLine ends a line: it stores the name of the event, or ends a field without a colon. An empty line ends the
// event at the sink, if it had data, and clears the event's name.
func (s *SSE) endLine() {
	switch {
	case s.at == inName && s.n == 0:
		if s.begun {
			s.sink.End(s.event)
		}
		s.event, s.begun = Head{}, false
	case s.at == inName: // a field without a colon has no value
		s.endName()
	}
	if s.field == event {
		s.event.Name = s.value.String()
	}
	s.at, s.n, s.field, s.mark = inName, 0, other, len(byteOrderMark)
}

// countBefore returns the number of bytes before the first c, and the length of b without one.
func countBefore(b []byte, c byte) int {
	if i := bytes.IndexByte(b, c); i >= 0 {
		return i
	}
	return len(b)
}
