package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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

// The paths that references are asked about. The short ones are strict, too.
var (
	strictList = []string{"a|aa", "a|aa.b", "c[]", "c[].d", "c[].d[].e|\u00e9", "[].k", "[]", "[][]", "m.n.o", "m"}
	strictSet  = Compile(strictList...)
	looseList  = append(slices.Clone(strictList), "u", "u.named", "u.named.n", "z[][]")
	looseSet   = Compile(looseList...)
)

// agree wants the scanner to read input as the references do, however it is cut.
func agree(t require.TestingT, input string) {
	o := Options{Capture: 1 << 20}
	loose := read(t, looseSet, o, input, len(input)+1)
	inPieces(t, looseSet, o, input, loose)
	ref := reference{paths: looseList}
	same(t, input, ref.plainly(input), ref.events, loose)

	ref = reference{paths: looseList}
	err := ref.tokens(input)
	if err != nil && errors.Is(loose.err, ErrDepth) { // ours does not read on
		err = ErrDepth
	}
	tokens := reading{events: slices.Clone(loose.events), err: loose.err}
	for i := range tokens.events { // which that decoder does not tell, and as it changes what is not UTF-8
		tokens.events[i].Len = 0
		tokens.events[i].Text = string([]rune(tokens.events[i].Text))
	}
	if strings.IndexFunc(input, func(r rune) bool { return r == '\ufffd' }) < 0 { // in keys it makes paths of others
		same(t, input, err, ref.events, tokens)
	}

	o.Strict = true
	strict := read(t, strictSet, o, input, len(input)+1)
	inPieces(t, strictSet, o, input, strict)
	ref = reference{paths: strictList, strict: true}
	same(t, input, ref.plainly(input), ref.events, strict)
}

// inPieces wants the same of pieces of any size.
func inPieces(t require.TestingT, p *Paths, o Options, input string, want reading) {
	for _, size := range []int{1, 2, 3, 7} {
		require.Equal(t, want, read(t, p, o, input, size), "%q in pieces of %d", input, size)
	}
	o.Capture = 2
	cut := read(t, p, o, input, 5)
	require.Equal(t, want.err, cut.err, "%q", input)
	require.Len(t, cut.events, len(want.events), "%q", input)
	for i, e := range want.events {
		e.Text = e.Text[:min(2, len(e.Text))]
		require.Equal(t, e, cut.events[i], "%q", input)
	}
}

// same wants the same events, or a refusal by both, before which the scanner may have told some.
func same(t require.TestingT, input string, err error, events []seen, got reading) {
	var duplicate *DuplicateError
	require.Equal(t, err != nil, got.err != nil, "%q: %v, not %v", input, got.err, err)
	require.Equal(t, errors.Is(err, ErrDepth), errors.Is(got.err, ErrDepth), "%q: %v, not %v", input, got.err, err)
	require.Equal(t, errors.Is(err, errTwice), errors.As(got.err, &duplicate), "%q: %v, not %v", input, got.err, err)
	if err != nil { // sooner or later
		n := min(len(events), len(got.events))
		events, got.events = events[:n], got.events[:n]
	}
	if len(events)+len(got.events) > 0 {
		require.Equal(t, events, got.events, "%q", input)
	}
}

// FuzzReferences asks two other parsers.
func FuzzReferences(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"aa":{"b":"x"},"c":[{"d":[{"e":1.5e+7}]},null,true],"m":{"n":{"o":false}}}`,
		`[{"k":"\ud83d\ude00\ud800x\u00e9\/"},[1,[2]],-0]`,
		`{"u":{"x":{"n":1},"named":{"z":[]},"y":[1,2]},"w":{"z":"\\"}}`,
		"\xef\xbb\xbf{\"c\":[{\"d\":[{\"\u00e9\":\"\xff\xe2\x82\"}]}],\"\\u0061\":12}", `{"a":01}`, `1e5`, ` [] `, `[1,]`, `"`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		if len(input) < 4<<10 {
			agree(t, input)
		}
	})
}

// TestGenerated asks them about JSON that is on the paths, with mistakes in some of it.
func TestGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input := generated(4).Draw(t, "input")
		for range rapid.IntRange(0, 2).Draw(t, "mistakes") {
			at := rapid.IntRange(0, len(input)).Draw(t, "at")
			end := min(len(input), at+rapid.IntRange(0, 2).Draw(t, "without"))
			input = input[:at] + rapid.SampledFrom(pieces).Draw(t, "piece") + input[end:]
		}
		agree(t, input)
	})
}

var pieces = []string{
	"", ",", ":", `"`, `\`, "{", "}", "[", "]", "0", "-", ".", "e", "null", " ", "\n", "\x00", "\x1f", "\x7f", "\xff", "\xe2\x82", "\u20ac",
	"\U0001f600", `\ud800`, `\udc00`, `\uD83D\uDE00`, `\udbff\udfff`, `\ud7ff`, `\u00E9`, `\u0061`, `\n`, `\"`, `\x`, `\u12`, "\ufffd", "\xef\xbb\xbf", "\xed\xa0\x80", "plain text of some length",
}

func generated(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 4
		if depth == 0 {
			kinds = 2
		}
		var members []string
		inside := rapid.SliceOfN(rapid.SampledFrom([]string{"a", `\u00e9`, "\u00e9", `\\`, `\ud83d\ude00`, `\ud800`, "\xc3", "a longer piece of text", `\/`}), 0, 4)
		switch kind := rapid.IntRange(0, kinds).Draw(t, "kind"); kind {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "12", "1.5", "1E5", "2e-7", "9007199254740993"}).Draw(t, "word")
		case 1, 2:
			return `"` + strings.Join(inside.Draw(t, "text"), "") + `"`
		default:
			for range rapid.IntRange(0, 4).Draw(t, "members") {
				member := generated(depth-1).Draw(t, "member")
				if kind == 4 {
					key := rapid.SampledFrom([]string{"a", `\u0061`, "aa", "A", "b", "c", "d", "e", `\u00e9`, "k", "m", "n", "o", "u", "named", "z", "other", ""}).Draw(t, "key")
					member = `"` + key + `" :` + member
				}
				members = append(members, member)
			}
			if kind == 4 {
				return "{" + strings.Join(members, ", ") + "}"
			}
			return "[" + strings.Join(members, ",") + " ]"
		}
	})
}
