package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxSize is how long a manifest may be, in bytes: about 50,000 entities.
const MaxSize = 16 << 20

type kind int

const (
	nothing kind = iota // a null
	scalar
	mapping
	sequence
)

// node is a value of the file, and where it stands. What an alias stands for is the same
// node again.
type node struct {
	kind         kind
	line, column int
	text         string // of a scalar
	quoted       bool
	entries      []entry
	items        []*node
}

// entry is a key of a mapping with its value.
type entry struct {
	key          string
	line, column int
	value        *node
}

// reader turns the text of one file into nodes.
type reader struct {
	file     string
	problems Problems
	anchors  map[string]*node // nil while the anchored value is read
	merged   int              // entries that merge keys brought
}

// mostMerged bounds what merge keys bring: they can double a mapping with each line.
const mostMerged = 1 << 20

func (r *reader) wrong(line, column int, path, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, line, column, path, fmt.Sprintf(format, args...)})
}

// read is the value of the file; nil if there is none, or it is no YAML.
func (r *reader) read(data []byte) *node {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !r.isText(data) {
		return nil
	}
	tokens := lexer.Tokenize(string(data))
	if bad := tokens.InvalidToken(); bad != nil {
		r.syntax(&yaml.SyntaxError{Message: bad.Error, Token: bad})
		return nil
	}
	tokens, ok := r.document(tokens)
	if !ok {
		return nil
	}
	if len(tokens) == 0 {
		r.wrong(0, 0, "", "is empty: write at least a level, such as 'system: {limits: {rpm: 100}}', or print a table's with 'dynalimit manifest export'")
		return nil
	}
	r.anchors = map[string]*node{}
	return r.block(tokens)
}

// isText refuses what is too long or not UTF-8.
func (r *reader) isText(data []byte) bool {
	if len(data) > MaxSize {
		r.wrong(0, 0, "", "has %d bytes, and a manifest has at most %d: split it into several, each with a name of its own", len(data), MaxSize)
		return false
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		r.wrong(1, 1, "", "is UTF-16: save it as UTF-8")
		return false
	}
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 || unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c) {
			line, column := place(data[:i])
			r.wrong(line, column, "", "has the byte 0x%02x, which is no text: save the file as UTF-8, and write control characters as \"\\u0085\"", data[i])
			return false
		}
		i += size
	}
	return true
}

// place is the line and column of what follows a text.
func place(before []byte) (line, column int) {
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// deepest is how deep values may be nested, besides by indentation.
const deepest = 64

// refused are types of tokens that a manifest cannot have.
var refused = map[token.Type]string{
	token.DocumentHeaderType: "is a second document: a manifest is one; put the other into a file of its own",
	token.DirectiveType:      "is a directive: remove the line, a manifest needs none",
	token.MappingKeyType:     "is a key written with '?': write it as 'key: value'",
}

// document is the tokens of the one document, without comments. What the file cannot have
// is refused here, before anything recurses into it.
func (r *reader) document(tokens token.Tokens) (token.Tokens, bool) {
	out := make(token.Tokens, 0, len(tokens))
	depth, entries, ended := 0, 0, false
	for _, tk := range tokens {
		at := tk.Position
		switch tk.Type {
		case token.CommentType:
			continue
		case token.DocumentEndType:
			ended = true
			continue
		case token.DocumentHeaderType:
			if len(out) == 0 && !ended {
				continue
			}
		}
		depth += nesting(tk)
		if entries++; tk.Type != token.SequenceEntryType {
			entries = 0
		}
		text := refused[tk.Type]
		if max(depth, entries) > deepest {
			text = fmt.Sprintf("is nested more than %d deep: a manifest is not", deepest)
		}
		if text != "" {
			r.wrong(at.Line, at.Column, "", "%s", text)
			return nil, false
		}
		out = append(out, tk)
	}
	return out, true
}

// syntax reports what is no YAML.
func (r *reader) syntax(err error) {
	var bad yaml.Error
	if !errors.As(err, &bad) || bad.GetToken() == nil {
		r.wrong(0, 0, "", "is no YAML: %v", err)
		return
	}
	text := bad.GetMessage()
	if strings.ContainsRune(text, '\t') {
		text = "a tab stands where YAML wants spaces: indent with spaces"
	}
	at := bad.GetToken().Position
	r.wrong(at.Line, max(1, at.Column), "", "is no YAML: %s", text)
}

// parse is the value of some tokens.
func (r *reader) parse(tokens token.Tokens) (n *node) {
	at := tokens[0].Position
	defer func() {
		if broken := recover(); broken != nil { // of the YAML parser, by input that it did not expect
			r.wrong(at.Line, max(1, at.Column), "", "cannot be read as YAML from here on: %v", broken)
			n = nil
		}
	}()
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return &node{line: at.Line, column: at.Column}
	}
	return r.value(file.Docs[0].Body)
}

// value is the node of a parsed value.
func (r *reader) value(parsed ast.Node) *node {
	n := &node{}
	if tk := parsed.GetToken(); tk != nil {
		n.line, n.column = tk.Position.Line, max(1, tk.Position.Column)
	}
	switch v := parsed.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		r.mapping(n, v.Values)
	case *ast.MappingValueNode:
		r.mapping(n, []*ast.MappingValueNode{v})
	case *ast.SequenceNode:
		n.kind = sequence
		for _, item := range v.Values {
			n.items = append(n.items, r.value(item))
		}
	case *ast.AnchorNode:
		return r.anchor(v)
	case *ast.AliasNode:
		return r.alias(v, n)
	default:
		if n.scalar(parsed) {
			break
		}
		r.wrong(n.line, n.column, "", "is YAML that a manifest has no use for (%s): write plain keys and values, without tags", parsed.Type())
	}
	return n
}

// scalar fills a node with a text; it is false for what is none.
func (n *node) scalar(parsed ast.Node) bool {
	switch v := parsed.(type) {
	case *ast.StringNode:
		n.text, n.quoted = v.Value, v.Token.Type == token.SingleQuoteType || v.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		n.text, n.quoted = v.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.text = parsed.GetToken().Value
	default:
		return false
	}
	n.kind = scalar
	return true
}

// anchor is the value that has a name from here on.
func (r *reader) anchor(v *ast.AnchorNode) *node {
	name := v.Name.GetToken().Value
	r.anchors[name] = nil
	n := r.value(v.Value)
	r.anchors[name] = n
	return n
}

// alias is the value that was named above.
func (r *reader) alias(v *ast.AliasNode, at *node) *node {
	name := v.Value.GetToken().Value
	n, ok := r.anchors[name]
	if n == nil {
		text := "*%s stands for nothing: no &%s stands above it"
		if ok {
			text = "*%s stands within what &%s names: it would contain itself"
		}
		r.wrong(at.line, at.column, "", text, name, name)
		return at
	}
	return n
}

// mapping fills a node with the keys and values of a mapping; what it merges comes last,
// where it has no key of that name.
func (r *reader) mapping(n *node, values []*ast.MappingValueNode) {
	n.kind = mapping
	if len(values) > 0 {
		n.line, n.column = keyPlace(values[0])
	}
	own := make(map[string]int, len(values)) // the line
	var merges []*node
	for _, v := range values {
		line, column := keyPlace(v)
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merges = append(merges, r.value(v.Value))
			continue
		}
		key, ok := keyText(v.Key)
		if !ok {
			r.wrong(line, column, "", "is no key: write a name")
			continue
		}
		if first, twice := own[key]; twice {
			r.wrong(line, column, "", "%q stands twice here, first in line %d: remove one of them", key, first)
			continue
		}
		own[key] = line
		n.entries = append(n.entries, entry{key, line, column, r.value(v.Value)})
	}
	for _, from := range merges {
		r.merge(n, own, from)
	}
}

// merge adds the entries of mappings that a node does not have.
func (r *reader) merge(n *node, own map[string]int, from *node) {
	sources := []*node{from}
	if from.kind == sequence {
		sources = from.items
	}
	for _, source := range sources {
		if source.kind != mapping {
			r.wrong(source.line, source.column, "", "is merged with '<<' and is no mapping: name one with '*'")
			continue
		}
		for _, e := range source.entries {
			if _, known := own[e.key]; known {
				continue
			}
			if r.merged++; r.merged > mostMerged {
				r.wrong(n.line, n.column, "", "is too much: merge keys bring more than %d entries; merge less", mostMerged)
				return
			}
			own[e.key] = e.line
			n.entries = append(n.entries, e)
		}
	}
}

func keyPlace(v *ast.MappingValueNode) (line, column int) {
	at := v.Key.GetToken().Position
	return at.Line, max(1, at.Column)
}

// keyText is the name that a key is.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MappingKeyNode:
		return "", false
	case ast.ScalarNode:
		return k.GetToken().Value, true
	}
	return "", false
}

// scalars are the types of tokens that a plain key can be.
var scalars = []token.Type{
	token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.IntegerType, token.FloatType, token.BoolType, token.NullType,
	token.OctetIntegerType, token.HexIntegerType, token.BinaryIntegerType, token.MergeKeyType,
}

func isKey(tokens token.Tokens, i int) bool {
	return i+1 < len(tokens) && slices.Contains(scalars, tokens[i].Type) && tokens[i+1].Type == token.MappingValueType
}
