package jsonscan

import "strings"

// frame is an object or array that is open.
type frame struct {
	node *node
	seen uint64 // the keys on paths that were there, a bit each
	end  byte   // what closes it
}

// state is what the next byte is part of or may begin.
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

// wanted says what is missing where something else is.
var wanted = [...]string{
	"want a value", "want a value or ]", "want a key or }", "want a key", "want a colon",
	"want a comma or the end of the object or array", "want nothing after the value",
}

// readPunctuation reads a byte that is in no white space, string, number or word.
func (s *Scanner) readPunctuation(c byte) int {
	switch {
	case s.state == wantValue, s.state == firstElement && c != ']':
		return s.begin(c)
	case (s.state == wantKey || s.state == firstKey) && c == '"':
		s.beginKey()
	case s.state == wantColon && c == ':':
		s.state = wantValue
	case s.state == afterValue && c == ',' && s.top().end == ']':
		s.state, s.at = wantValue, s.top().node.each()
	case s.state == afterValue && c == ',':
		s.state = wantKey
	case (s.state == firstElement || s.state == firstKey || s.state == afterValue) && c == s.top().end:
		closed := s.top().node
		s.stack = s.stack[:len(s.stack)-1]
		s.ended(closed, Event{Kind: End})
	default:
		return s.fail(0, wanted[s.state])
	}
	return 1
}

// blanks counts the white space that b begins with.
func blanks(b []byte) int {
	n := 0
	for n < len(b) && (b[n] == ' ' || b[n] == '\n' || b[n] == '\r' || b[n] == '\t') {
		n++
	}
	return n
}

// begin begins a value.
func (s *Scanner) begin(c byte) int {
	s.to, s.begun = nil, s.off
	if s.at.reported() {
		s.to = s.text.empty()
	}
	switch {
	case c == '{':
		return s.open(firstKey, Object, '}')
	case c == '[':
		return s.open(firstElement, Array, ']')
	case c == '"':
		s.state, s.str = inString, str{}
		return 1
	case c == '-' || digit(c):
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

// open begins an object or array.
func (s *Scanner) open(state state, kind Kind, end byte) int {
	if len(s.stack) == maxDepth {
		s.err = ErrDepth
		return 0
	}
	s.stack = append(s.stack, frame{node: s.at, end: end})
	s.emit(s.at, Event{Kind: kind, Offset: s.off})
	s.state, s.at = state, s.at.each()
	return 1
}

func (s *Scanner) top() *frame { return &s.stack[len(s.stack)-1] }

// ended reports a value and goes on behind it.
func (s *Scanner) ended(n *node, e Event) {
	s.emit(n, e)
	s.state = afterValue
	if len(s.stack) == 0 {
		s.state = afterAll
	}
}

// beginKey begins a key, which is kept if it may be on a path.
func (s *Scanner) beginKey() {
	s.state, s.str, s.to, s.begun = inString, str{key: true}, nil, s.off
	if n := s.top().node; n != nil && n.keys != nil {
		s.to = s.key.empty()
	}
}

// endKey finds the node of the value that comes next.
func (s *Scanner) endKey() {
	s.state, s.at = wantColon, nil
	if s.to == nil {
		return
	}
	open := s.top()
	s.at = open.node.keys[string(s.key.b)]
	switch {
	case s.at == nil:
		s.at = open.node.keys["*"]
	case s.options.Strict && open.seen&s.at.bit != 0:
		s.err = &DuplicateError{Path: s.at.name}
	default:
		open.seen |= s.at.bit
	}
}
