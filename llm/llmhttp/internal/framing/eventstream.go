package framing

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// These errors end the reading of an event stream for good: the position in the stream is lost.
var (
	// ErrCRC means a wrong checksum, of a prelude or of a message.
	ErrCRC = errors.New("a checksum of the event stream is wrong")
	// ErrFrame means an impossible length or header type.
	ErrFrame = errors.New("a frame of the event stream is malformed")
)

// The most that the protocol allows.
const (
	maxMessage = 24 << 20
	maxHeaders = 128 << 10
)

// A message is a prelude of two lengths and their checksum, headers, a payload, and the checksum
// of all of it.
const (
	preludeSize = 12
	crcSize     = 4
)

// EventStream reads application/vnd.amazon.eventstream. It checks both checksums of each message:
// End is called only after the message's own was right. Make it with NewEventStream.
type EventStream struct {
	sink Sink
	err  error

	at      part
	need    int    // bytes of the part that are still to come
	buf     text   // the part, where it is kept
	crc     uint32 // of the message so far
	headers int    // bytes of headers after this part
	payload int    // bytes of payload

	header     *text // the buffer of the header's value; nil to skip it
	mode, name text  // the headers of interest
	event      Head
}

// part is a piece of a message.
type part uint8

const (
	prelude part = iota
	nameSize
	headerName
	valueType
	valueSize
	value
	payload
	trailer
)

// sizes are those of a header's value, by its type: true, false, byte, short, integer, long,
// bytes, string, timestamp, UUID. One below 0 stands before the value itself.
var sizes = [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}

const stringType = 7

// NewEventStream makes a reader of an AWS event stream that reports events to a sink. Write feeds it.
func NewEventStream(s Sink) *EventStream { return &EventStream{sink: s, need: preludeSize} }

// Write reads the next bytes of the stream and reports its events to the sink. After a wrong checksum or a
// malformed frame it fails with ErrCRC or ErrFrame, then and always. It returns the number of bytes read.
func (e *EventStream) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) && e.err == nil {
		p := b[done:min(len(b), done+e.need)]
		if e.at != trailer {
			e.crc = crc32.Update(e.crc, crc32.IEEETable, p)
		}
		switch {
		case e.at == payload:
			e.sink.Data(p)
		case e.at != value:
			e.buf.add(p)
		case e.header != nil:
			e.header.add(p)
		}
		e.need -= len(p)
		done += len(p)
		for e.need == 0 && e.err == nil {
			e.handlePart()
			e.buf.clear()
		}
	}
	return done, e.err
}

// handlePart ends the current part of a message, once Write has read all its bytes, and selects the next. It
// reports the event's beginning after the headers and its end after the checksum; a malformed message sets
// e.err.
func (e *EventStream) handlePart() {
	b := e.buf.buf
	switch e.at {
	case prelude:
		e.beginMessage(b)
	case nameSize:
		e.expectPart(headerName, int(b[0]))
	case headerName:
		e.header = e.bufferOf(b)
		e.expectPart(valueType, 1)
	case valueType:
		e.beginValue(b[0])
	case valueSize:
		e.expectPart(value, int(binary.BigEndian.Uint16(b)))
	case value:
		e.headerOrPayload()
	case payload:
		e.at, e.need = trailer, crcSize
	case trailer:
		if binary.BigEndian.Uint32(b) != e.crc {
			e.err = ErrCRC
			return
		}
		e.sink.End(e.event)
		e.at, e.need, e.crc = prelude, preludeSize, 0
	}
}

// beginMessage checks a prelude, the lengths and their checksum, and starts the message's headers. It sets e.err if
// they are wrong.
func (e *EventStream) beginMessage(b []byte) {
	total, headers := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	switch {
	case crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]):
		e.err = ErrCRC
	case total < preludeSize+crcSize, total > maxMessage, headers > maxHeaders, headers > total-preludeSize-crcSize:
		e.err = ErrFrame
	default:
		e.mode.clear()
		e.name.clear()
		e.headers, e.payload = int(headers), int(total-headers)-preludeSize-crcSize
		e.headerOrPayload()
	}
}

// expectPart selects at as the next part of the message's headers, with n bytes. It sets e.err if the headers
// have fewer bytes left.
func (e *EventStream) expectPart(at part, n int) {
	if n > e.headers {
		e.err = ErrFrame
		return
	}
	e.at, e.need = at, n
	e.headers -= n
}

// headerOrPayload begins the next header. After the last one it reports the event's beginning and starts the
// payload.
func (e *EventStream) headerOrPayload() {
	if e.headers > 0 {
		e.expectPart(nameSize, 1)
		return
	}
	mode := e.mode.String()
	e.event = Head{Name: e.name.String(), Exception: mode == "exception" || mode == "error"}
	e.sink.Begin(e.event)
	e.at, e.need = payload, e.payload
}

// beginValue begins a header's value of type kind; only strings are kept. It sets e.err for an unknown type.
func (e *EventStream) beginValue(kind byte) {
	if kind != stringType {
		e.header = nil
	}
	if e.header != nil {
		e.header.clear()
	}
	switch {
	case int(kind) >= len(sizes):
		e.err = ErrFrame
	case sizes[kind] < 0:
		e.expectPart(valueSize, 2)
	default:
		e.expectPart(value, sizes[kind])
	}
}

// bufferOf returns the buffer for the value of a header by its name, nil for a header without interest.
func (e *EventStream) bufferOf(name []byte) *text {
	switch string(name) {
	case ":message-type":
		return &e.mode
	case ":event-type", ":exception-type", ":error-code":
		return &e.name
	}
	return nil
}
