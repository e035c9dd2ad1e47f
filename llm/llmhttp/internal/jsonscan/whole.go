package jsonscan

// What stands in the bytes at hand as a whole and plainly, as nearly all does, is read at once.
// The rest is left, by 0, to what reads pieces.

// wholeKey reads a key with its colon, and before it all members that nobody asks for.
func (s *Scanner) wholeKey(b []byte) int {
	if s.options.Strict {
		return 0
	}
	read, parent := 0, s.top().node
	for {
		n := wholeString(b[read:])
		if n == 0 || read+n == len(b) || b[read+n] != ':' {
			return read
		}
		s.state, s.at = wantValue, parent.below(b[read+1:read+n-1])
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

// whole reads a string, a number in digits alone or a word.
func (s *Scanner) whole(b []byte) int {
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
	if !s.at.reported() {
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
	s.emit(s.at, e)
	return n
}

// wholeScalar is how long a value is that stands whole in b, and of which kind.
func wholeScalar(b []byte) (int, Kind) {
	switch {
	case len(b) == 0:
		return 0, Null
	case b[0] == '"':
		return wholeString(b), String
	case digit(b[0]):
		return wholeNumber(b), Number
	default:
		return wholeWord(b)
	}
}

// wholeString is how long a string without escapes is, with its quotes.
func wholeString(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	n := 1 + plain(b[1:])
	if n == len(b) || b[n] != '"' {
		return 0
	}
	return n + 1
}

// wholeNumber is how long a number in digits alone is, if something else follows.
func wholeNumber(b []byte) int {
	n := 1
	for n < len(b) && digit(b[n]) {
		n++
	}
	if n == len(b) || b[0] == '0' && n > 1 || b[n] != ',' && b[n] != '}' && b[n] != ']' {
		return 0
	}
	return n
}

// wholeWord is how long a word is, and which.
func wholeWord(b []byte) (int, Kind) {
	for kind, word := range words {
		if b[0] == word[0] && len(b) >= len(word) && string(b[:len(word)]) == word {
			return len(word), Kind(kind)
		}
	}
	return 0, 0
}
