package jsonscan

import "unicode/utf8"

// maxDepth is how many objects and arrays may be in each other.
const maxDepth = 1000

// Options configure a Scanner.
type Options struct {
	// Capture is how many bytes Event.Text holds at most. Defaults to 256.
	Capture int
	// Strict refuses the forms on which parsers differ: a key on a path that its object has twice, in
	// either spelling, invalid UTF-8, halves of surrogate pairs and a byte order mark. Otherwise
	// both values of such a key are reported, invalid UTF-8 is let through, half a pair is U+FFFD
	// and the mark is skipped.
	Strict bool
	// Chunk receives all of the strings at paths, decoded, in pieces as they arrive, which may
	// cut a rune. A piece is valid during the call. Defaults to nil.
	Chunk func(path int, b []byte)
}

// Scanner reads one JSON value after another. It is for one goroutine at a time.
type Scanner struct {
	paths   *Paths
	options Options
	found   func(Event) error

	err   error // the first one
	off   int64 // how many bytes were read
	state state
	stack []frame  // the objects and arrays that are open
	at    *node    // of the value that is read or comes next
	key   bounded  // the last key that may be on a path
	text  bounded  // the last string or number at a path
	to    *bounded // the buffer (key or text) of the current string or number; nil if it is not wanted
	begun int64    // where that string or number begins
	str   str
	one   [utf8.UTFMax]byte // a rune that was escaped
	part  part              // of the number that is read
	rest  string            // of the word that is read, still to come
	word  Kind              // of it

	start start
	fresh bool // no part of this value was wanted so far
}

// start is the beginning of the last value, up to its first wanted value. The events of a
// stream mostly begin alike, so the scanner skips a beginning that it has read before.
type start struct {
	text  []byte
	stack []frame
	at    *node
}

// New makes a scanner of one JSON value that calls found for each value at one of the paths, as Write reads it.
// An error of found ends the reading. Capture defaults to 256 bytes.
func New(p *Paths, o Options, found func(Event) error) *Scanner {
	if o.Capture <= 0 {
		o.Capture = 256
	}
	s := &Scanner{paths: p, options: o, found: found}
	s.text.most = o.Capture
	s.key.most = p.longest + 1 // a longer key matches no spelling
	s.Reset()
	return s
}

// Reset makes s ready for the next value: it clears the error and the position, and keeps the known start and
// small buffers.
func (s *Scanner) Reset() {
	s.err, s.off, s.state, s.at, s.stack = nil, 0, wantValue, s.paths.root, s.stack[:0]
	s.fresh = !s.options.Strict
	s.key.release()
	s.text.release()
}

// Write reads the next bytes of the value, and reports the values at paths. It returns the first error of s,
// and how much of b was read before it.
func (s *Scanner) Write(b []byte) (int, error) {
	n := s.skipStart(b)
	for n < len(b) && s.err == nil {
		if s.fresh && s.state == wantValue && s.at.isReported() {
			s.storeStart(b[:n])
		}
		read := s.step(b[n:])
		n += read
		s.off += int64(read)
	}
	return n, s.err
}

// skipStart skips a known beginning of a value if b starts with the same bytes as the value before, and sets
// the scanner's state accordingly. It returns the number of bytes skipped, 0 in strict reading.
func (s *Scanner) skipStart(b []byte) int {
	n := len(s.start.text)
	if s.off > 0 || s.err != nil || n == 0 || !s.fresh || len(b) < n || string(b[:n]) != string(s.start.text) {
		return 0
	}
	s.off, s.state, s.at, s.fresh = int64(n), wantValue, s.start.at, false
	s.stack = append(s.stack, s.start.stack...)
	return n
}

// maxStart bounds the stored start, in bytes.
const maxStart = 1 << 10

// storeStart stores the beginning b of a value and the state after it for skipStart, once for each value. It
// stores nothing unless the beginning came in one piece of at most 1 KiB.
func (s *Scanner) storeStart(b []byte) {
	s.fresh = false
	if s.off == int64(len(b)) && len(b) <= maxStart {
		s.start.text, s.start.stack, s.start.at = append(s.start.text[:0], b...), append(s.start.stack[:0], s.stack...), s.at
	}
}

// Close ends the value. It returns the scanner's first error, or a SyntaxError unless one whole value was
// written.
func (s *Scanner) Close() error {
	if s.err == nil && s.state == inNumber && len(s.stack) == 0 && s.part.mayEnd() {
		s.state = afterAll
	}
	if s.err == nil && s.state != afterAll {
		s.fail(0, "the value ends early")
	}
	return s.err
}

// step reads the next syntax element, or a piece of it, from b and returns the number of bytes read. Errors
// are in s.err.
func (s *Scanner) step(b []byte) int {
	switch s.state {
	case inString:
		return s.readString(b)
	case inEscape:
		return s.readEscape(b[0])
	case inCode:
		return s.readCode(b[0])
	case inNumber:
		return s.readNumber(b)
	case inWord, inMark:
		return s.readWord(b)
	default:
		if n := countBlanks(b); n > 0 {
			return n
		}
		return s.readPunctuation(b)
	}
}

// fail sets s.err to a SyntaxError n bytes after the current position, and returns n.
func (s *Scanner) fail(n int, reason string) int {
	s.err = &SyntaxError{Offset: s.off + int64(n), Reason: reason}
	return n
}

// emitValue calls found with the event, if a path ends at n, and stores its error in s.err. It drops events at
// other nodes.
func (s *Scanner) emitValue(n *node, e Event) {
	if !n.isReported() {
		return
	}
	e.Path, s.fresh = n.path, false
	if n.named {
		e.Key = s.key.b
	}
	s.err = s.found(e)
}
