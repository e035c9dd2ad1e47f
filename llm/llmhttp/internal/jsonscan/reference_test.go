package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A reference tells where it is by a list of steps from the whole value: a key behind a dot, or
// "[]". It compares that with each path, and knows nothing of how Compile does it.
type reference struct {
	paths  []string
	strict bool
	events []seen
}

// steps are the steps of a path as it is written.
func steps(path string) []string {
	var all []string
	for i, part := range strings.Split(path, ".") {
		key, arrays, _ := strings.Cut(part, "[]")
		if key != "" || i > 0 {
			all = append(all, "."+key)
		}
		if n := strings.Count("[]"+arrays, "[]"); len(key) < len(part) {
			all = append(all, slices.Repeat([]string{"[]"}, n)...)
		}
	}
	return all
}

// spells reports whether the step of a path is the one at hand.
func spells(step, at string) bool {
	return step == "[]" && at == "[]" || step != "[]" && at != "[]" && slices.Contains(strings.Split(step[1:], "|"), at[1:])
}

// leads reports whether some first steps of a path lead to where the reference is.
func (r *reference) leads(path []string, at []string) bool {
	if len(path) < len(at) {
		return false
	}
	for i, step := range at {
		if !spells(path[i], step) {
			return false
		}
	}
	return true
}

func (r *reference) emit(at []string, e seen) {
	for id, path := range r.paths {
		if p := steps(path); len(p) == len(at) && r.leads(p, at) {
			e.Path = id
			r.events = append(r.events, e)
		}
	}
}

// twice reports whether the last key of at is on a path and was in its object before.
func (r *reference) twice(at []string, before [][]string) bool {
	for _, path := range r.paths {
		for _, other := range before {
			if p := steps(path); r.leads(p, at) && r.leads(p, other) {
				return true
			}
		}
	}
	return false
}

// tokens reads with the decoder of encoding/json.
func (r *reference) tokens(input string) error {
	input = strings.TrimPrefix(input, "\xef\xbb\xbf")
	if !json.Valid([]byte(input)) {
		return errors.New("not JSON")
	}
	d := json.NewDecoder(strings.NewReader(input))
	d.UseNumber()
	var value func(at []string) error
	value = func(at []string) error {
		token, _ := d.Token()
		switch token := token.(type) {
		case nil:
			r.emit(at, seen{Kind: Null})
		case bool:
			r.emit(at, seen{Kind: map[bool]Kind{false: False, true: True}[token]})
		case json.Number:
			r.emit(at, seen{Kind: Number, Text: string(token)})
		case string:
			r.emit(at, seen{Kind: String, Text: token})
		case json.Delim:
			if len(at) == 1000 {
				return ErrDepth
			}
			r.emit(at, seen{Kind: map[json.Delim]Kind{'{': Object, '[': Array}[token]})
			for d.More() {
				step := "[]"
				if token == '{' {
					key, _ := d.Token()
					step = "." + key.(string)
				}
				if err := value(append(slices.Clip(at), step)); err != nil {
					return err
				}
			}
			_, _ = d.Token()
			r.emit(at, seen{Kind: End})
		}
		return nil
	}
	return value(nil)
}

var (
	errRefused = errors.New("refused")
	errTwice   = errors.New("twice")
	literal    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
	quoted     = regexp.MustCompile(`^"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"`)
	space      = " \t\r\n"
)

// plainly reads the whole input as RFC 8259 has it, value by value.
func (r *reference) plainly(input string) (err error) {
	defer func() {
		if refusal, ok := recover().(error); ok {
			err = refusal
		}
	}()
	if !r.strict {
		input = strings.TrimPrefix(input, "\xef\xbb\xbf")
	}
	if rest := r.value([]byte(input), nil); len(rest) > 0 {
		panic(errRefused)
	}
	return nil
}

func (r *reference) value(b []byte, at []string) (rest []byte) {
	b = bytes.TrimLeft(b, space)
	for kind, text := range []string{"null", "false", "true"} {
		if bytes.HasPrefix(b, []byte(text)) {
			r.emit(at, seen{Kind: Kind(kind)})
			return bytes.TrimLeft(b[len(text):], space)
		}
	}
	if n := literal.Find(b); n != nil {
		r.emit(at, seen{Kind: Number, Text: string(n), Len: int64(len(n))})
		return bytes.TrimLeft(b[len(n):], space)
	}
	switch {
	case len(b) == 0:
		panic(errRefused)
	case b[0] == '"':
		text, raw := r.text(b)
		r.emit(at, seen{Kind: String, Text: text, Len: int64(raw - 2)})
		return bytes.TrimLeft(b[raw:], space)
	case b[0] != '[' && b[0] != '{':
		panic(errRefused)
	case len(at) == 1000:
		panic(ErrDepth)
	}
	var before [][]string
	object := b[0] == '{'
	end, kind := byte(']'), Array
	if object {
		end, kind = '}', Object
	}
	r.emit(at, seen{Kind: kind})
	b = bytes.TrimLeft(b[1:], space)
	for first := true; len(b) == 0 || b[0] != end; first = false {
		if !first {
			b = bytes.TrimLeft(must(bytes.CutPrefix(b, []byte(","))), space)
		}
		inside := append(slices.Clip(at), "[]")
		if object {
			key, raw := r.text(b)
			inside = append(slices.Clip(at), "."+key)
			if r.strict && r.twice(inside, before) {
				panic(errTwice)
			}
			before = append(before, inside)
			b = must(bytes.CutPrefix(bytes.TrimLeft(b[raw:], space), []byte(":")))
		}
		b = r.value(b, inside)
	}
	r.emit(at, seen{Kind: End})
	return bytes.TrimLeft(b[1:], space)
}

func must(b []byte, ok bool) []byte {
	if !ok {
		panic(errRefused)
	}
	return b
}

// text is the string that b begins with, and how many bytes it takes.
func (r *reference) text(b []byte) (string, int) {
	raw := quoted.Find([]byte(latin(b)))
	n := utf8.RuneCount(raw)
	if n == 0 || r.strict && !utf8.Valid(b[:n]) {
		panic(errRefused)
	}
	var out []byte
	inside := b[1 : n-1]
	for len(inside) > 0 {
		c, size := inside[0], 1
		if c != '\\' {
			out = append(out, c)
		} else if i := strings.IndexByte("nrtbf", inside[1]); i >= 0 {
			out, size = append(out, "\n\r\t\b\f"[i]), 2
		} else if inside[1] != 'u' {
			out, size = append(out, inside[1]), 2
		} else {
			one, two := unit(inside), unit(inside[6:])
			pair := utf16.DecodeRune(one, two)
			size = 6
			switch {
			case pair != utf8.RuneError:
				out, size = utf8.AppendRune(out, pair), 12
			case utf16.IsSurrogate(one) && r.strict:
				panic(errRefused)
			default:
				out = utf8.AppendRune(out, one)
			}
		}
		inside = inside[size:]
	}
	return string(out), n
}

// unit is the code of the escape \u that b begins with, or 0.
func unit(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n)
}

// latin makes a rune of each byte, for an expression would make one of each that is not UTF-8.
func latin(b []byte) string {
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}
