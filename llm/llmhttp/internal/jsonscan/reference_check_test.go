package jsonscan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

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
