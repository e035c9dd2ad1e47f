package jsonscan

import "strings"

// frame is an object or array that is open.
type frame struct {
	node *node
	seen uint64 // the keys on paths that were there, a bit each
	end  byte   // its closing byte
}

// state is the syntax element that the next byte belongs to or may begin.
type state uint8

const (
	wantValue state = iota
	firstElement
	firstKey
	wantKey
	wantColon
	afterValue
	afterAll
	inString
	inEscape
	inCode
	inNumber
	inWord
	inMark
)

// wanted names the missing element for error texts.
var wanted = [...]string{
	"want a value", "want a value or ]", "want a key or }", "want a key", "want a colon",
	"want a comma or the end of the object or array", "want nothing after the value",
}

// readPunctuation reads the byte that begins or separates values, or a whole key or value, and returns the
// number of bytes read. It sets s.err if the byte cannot come in this state.
func (s *Scanner) readPunctuation(b []byte) int {
	c := b[0]
	switch s.state {
	case wantValue:
		return s.beginValue(b)
	case firstElement:
		if c != ']' {
			return s.beginValue(b)
		}
		return s.closeContainer(c)
	case firstKey:
		if c == '}' {
			return s.closeContainer(c)
		}
		fallthrough
	case wantKey:
		if c == '"' {
			return s.beginKey(b)
		}
	case wantColon:
		if c == ':' {
			s.state = wantValue
			return 1
		}
	case afterValue:
		switch {
		case c != ',':
			return s.closeContainer(c)
		case s.top().end == ']':
			s.state, s.at = wantValue, s.top().node.elementNode()
		default:
			s.state = wantKey
		}
		return 1
	}
	return s.fail(0, wanted[s.state])
}

// closeContainer ends the innermost object or array if c is its closing byte, reports its end, and returns 1.
// Otherwise it sets s.err and returns 0.
func (s *Scanner) closeContainer(c byte) int {
	if c != s.top().end {
		return s.fail(0, wanted[s.state])
	}
	closed := s.top().node
	s.stack = s.stack[:len(s.stack)-1]
	s.endValue(closed, Event{Kind: End})
	return 1
}

// countBlanks returns the number of white space bytes at the beginning of b.
func countBlanks(b []byte) int {
	n := 0
	for n < len(b) && b[n] <= ' ' && (b[n] == ' ' || b[n] == '\n' || b[n] == '\r' || b[n] == '\t') {
		n++
	}
	return n
}

// beginValue begins the value at b[0] and returns the number of bytes read, all of a plain complete one. It is
// 0 for a number or word that the next step reads, and for a byte that begins no value, which sets s.err.
func (s *Scanner) beginValue(b []byte) int {
	c := b[0]
	switch {
	case c == '{':
		return s.openContainer(firstKey, Object, '}')
	case c == '[':
		return s.openContainer(firstElement, Array, ']')
	}
	if n := s.readWholeScalar(b); n > 0 {
		return n
	}
	s.to, s.begun = nil, s.off
	if s.at.isReported() {
		s.to = s.text.empty()
	}
	switch {
	case c == '"':
		s.state, s.str = inString, str{}
		return 1
	case c == '-' || isDigit(c):
		s.state, s.part = inNumber, beforeNumber
	case c == bom[0] && s.off == 0 && !s.options.Strict:
		s.state, s.rest = inMark, bom
	case strings.IndexByte("nft", c) >= 0:
		s.word = Kind(strings.IndexByte("nft", c))
		s.state, s.rest = inWord, words[s.word]
	default:
		return s.fail(0, wanted[s.state])
	}
	return 0
}

// readWholeKeys reads complete, plain members of an object in b that are on no path, and then the next key on a
// path. It returns the number of bytes read, 0 in strict reading or if the first key is not complete and plain.
func (s *Scanner) readWholeKeys(b []byte) int {
	if s.options.Strict {
		return 0
	}
	read, parent := 0, s.top().node
	for {
		n := wholeString(b[read:])
		if n == 0 || read+n == len(b) || b[read+n] != ':' {
			return read
		}
		key := b[read+1 : read+n-1]
		s.state, s.at = wantValue, s.paths.childBelow(parent, key)
		if s.at != nil && s.at.named {
			s.key.empty().add(key)
		}
		read += n + 1
		if s.at != nil {
			return read
		}
		n, _ = wholeScalar(b[read:])
		if n == 0 {
			return read
		}
		s.state = afterValue
		read += n
		if read == len(b) || b[read] != ',' {
			return read
		}
		s.state = wantKey
		read++
	}
}

// readWholeScalar reads and reports a string without escapes, plain number or word that is complete in b. It
// returns the number of bytes read, 0 if none is complete or in strict reading.
func (s *Scanner) readWholeScalar(b []byte) int {
	if s.options.Strict {
		return 0
	}
	n, kind := wholeScalar(b)
	if n == 0 {
		return 0
	}
	s.state = afterValue
	if len(s.stack) == 0 {
		s.state = afterAll
	}
	if !s.at.isReported() {
		return n
	}
	e := Event{Kind: kind, Offset: s.off}
	switch kind {
	case String:
		e = Event{Kind: String, Text: b[1 : n-1]}
		if s.options.Chunk != nil && n > 2 {
			s.options.Chunk(s.at.path, e.Text)
		}
	case Number:
		e = Event{Kind: Number, Text: b[:n]}
	}
	e.Len = int64(len(e.Text))
	e.Text = e.Text[:min(len(e.Text), s.options.Capture)]
	s.emitValue(s.at, e)
	return n
}

// openContainer begins an object or array that ends with the byte end, reports it if a path ends there, and
// selects state next. It returns the bytes read: 1, or 0 with s.err ErrDepth beyond 1,000 levels.
func (s *Scanner) openContainer(state state, kind Kind, end byte) int {
	if len(s.stack) == maxDepth {
		s.err = ErrDepth
		return 0
	}
	s.stack = append(s.stack, frame{node: s.at, end: end})
	s.emitValue(s.at, Event{Kind: kind, Offset: s.off})
	s.state, s.at = state, s.at.elementNode()
	return 1
}

// top returns the innermost open object or array. It panics if none is open.
func (s *Scanner) top() *frame { return &s.stack[len(s.stack)-1] }

// endValue reports the value at n by the event e, if a path ends there. It then expects a comma or an end, or
// nothing at the top level.
func (s *Scanner) endValue(n *node, e Event) {
	s.emitValue(n, e)
	s.state = afterValue
	if len(s.stack) == 0 {
		s.state = afterAll
	}
}

// beginKey begins a key, or reads whole members of no interest and then a key. It keeps a key's bytes only if
// the key may be on a path. It returns the number of bytes read.
func (s *Scanner) beginKey(b []byte) int {
	if n := s.readWholeKeys(b); n > 0 {
		return n
	}
	s.state, s.str, s.to, s.begun = inString, str{key: true}, nil, s.off
	if s.paths.hasKey(s.top().node) {
		s.to = s.key.empty()
	}
	return 1
}

// endKey sets s.at to the node of the value that follows the complete key, nil if no path goes there. In strict
// reading a repeated key on a path sets s.err to a DuplicateError.
func (s *Scanner) endKey() {
	s.state, s.at = wantColon, nil
	if s.to == nil {
		return
	}
	open := s.top()
	s.at = s.paths.childBelow(open.node, s.key.b)
	switch {
	case s.at == nil:
	case s.options.Strict && open.seen&s.at.bit != 0:
		s.err = &DuplicateError{Path: s.at.name}
	default:
		open.seen |= s.at.bit
	}
}
