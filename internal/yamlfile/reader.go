// Package yamlfile reads files in YAML, such as manifests and the configuration of a keeper. It
// reports everything that is wrong, each with its line, its column and its key.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSize is how long a file may be, in bytes: a manifest of about 50,000 entities.
const MaxSize = 16 << 20

// Form describes the files of one kind.
type Form struct {
	// Empty is the advice for a file without a value. If it is "", a value that is left empty
	// keeps its default, as do all values of an empty file.
	Empty string
	// Scalar fills a value of a type of the form's own from a text, or returns the problem.
	Scalar func(to any, text string) (reason string)
	// Help describes the form of a struct or a map: "write …".
	Help func(v any) string
	// Special fills values that are written in more than one way. It returns the value that is
	// left to be filled from the node; the zero Value if it is done. Nil fills none.
	Special func(r *Reader, v reflect.Value, n *yaml.Node, path string) reflect.Value
}

// Place is a position in a file, from 1; the zero Place is the file as a whole.
type Place struct{ Line, Column int }

// placeOfByte returns the line and the column of the i-th byte of a text, both from 1; columns count
// characters.
func placeOfByte(data []byte, i int) Place {
	start := bytes.LastIndexByte(data[:i], '\n') + 1
	return Place{bytes.Count(data[:i], []byte("\n")) + 1, utf8.RuneCount(data[start:i]) + 1}
}

// PlaceOf returns the line and the column, from 1, at which a node begins in its file.
func PlaceOf(n *yaml.Node) Place { return Place{n.Line, n.Column} }

// Reader fills values from the YAML of one file.
type Reader struct {
	Form
	// Problems are the problems so far.
	Problems Problems
	// Places are those of keys, by their paths.
	Places  map[string]Place
	file    string
	wronged map[string]bool         // paths at or below which something is wrong
	left    int                     // values that may still be read: aliases make few of them many
	open    map[*yaml.Node]bool     // mappings whose entries are being read
	known   map[reflect.Type]fields // of types that were met
}

// DecodeFile decodes data, the content of a YAML file, into the value that to points to, and continues after
// problems. The returned reader has the problems and the places of keys. file is the name of the file in
// problems.
func DecodeFile(file string, data []byte, form Form, to any) *Reader {
	r := &Reader{
		Form: form, Places: map[string]Place{}, file: file, wronged: map[string]bool{}, left: 1<<18 + 2*len(data),
		open: map[*yaml.Node]bool{}, known: map[reflect.Type]fields{},
	}
	if root := r.parseDocument(data); root != nil {
		r.fillValue(reflect.ValueOf(to).Elem(), root, "")
	}
	return r
}

// ProblemAt returns a Problem of the value at a path, with a formatted text and the place of its key. For an
// unknown path the place is the whole file. It does not add it to r.Problems.
func (r *Reader) ProblemAt(path, format string, args ...any) Problem {
	at := r.Places[path]
	return Problem{r.file, at.Line, at.Column, path, fmt.Sprintf(format, args...)}
}

// AddProblem adds a problem of the value at a path to r.Problems, with a formatted text. It marks the path and
// all paths above it as wrong.
func (r *Reader) AddProblem(at Place, path, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{r.file, at.Line, at.Column, path, fmt.Sprintf(format, args...)})
	for more := path != ""; more; path, more = parentPath(path) {
		r.wronged[path] = true
	}
}

// IsWrong reports whether a problem was added at or below a path.
func (r *Reader) IsWrong(path string) bool { return r.wronged[path] }

// parentPath returns a path without its last key and true. It returns "" and false for a path of one key.
func parentPath(path string) (string, bool) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], i >= 0
}

// parseDocument parses a file and returns the root value of its only document; nil without one or after a
// problem. It adds a problem for invalid input, for a second document, and for an empty file unless that is
// allowed.
func (r *Reader) parseDocument(data []byte) *yaml.Node {
	if !r.isText(data) {
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var root *yaml.Node
	for {
		var doc yaml.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			if root == nil && r.Empty != "" {
				r.AddProblem(Place{}, "", "is empty: %s", r.Empty)
			}
			return root
		case err != nil:
			r.addSyntaxProblem(err, data)
			return nil
		case len(doc.Content) == 0 || isNull(doc.Content[0]) && (root == nil || r.Empty == ""):
		case root != nil:
			r.AddProblem(PlaceOf(doc.Content[0]), "", "is a second document: a file has one; put the other into a file of its own")
			return nil
		default:
			root = doc.Content[0]
		}
	}
}

// isText reports whether data has at most MaxSize bytes and is UTF-8 without control characters other than tab
// and line ends. If not, it adds one problem.
func (r *Reader) isText(data []byte) bool {
	if len(data) > MaxSize {
		r.AddProblem(Place{}, "", "has %d bytes, and a file has at most %d: split it into several, each with a name of its own", len(data), MaxSize)
		return false
	}
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 || unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c) {
			r.AddProblem(placeOfByte(data, i), "", "has the byte 0x%02x, which is no text: save the file as UTF-8, and write control characters as \"\\u0085\"", data[i])
			return false
		}
		i += size
	}
	return true
}

// addSyntaxProblem adds a problem for input that is not YAML, by err of the YAML library. It corrects the line:
// the library reports the line before for errors of its parser, and no line for the first.
func (r *Reader) addSyntaxProblem(err error, data []byte) {
	text, at := strings.TrimPrefix(err.Error(), "yaml: "), Place{1, 1}
	if name, ok := strings.CutPrefix(text, "unknown anchor '"); ok {
		name, _, _ = strings.Cut(name, "'")
		r.AddProblem(placeOfByte(data, max(bytes.Index(data, []byte("*"+name)), 0)), "", "*%s has no anchor: write &%s above it, or the value itself", name, name)
		return
	}
	if _, err := fmt.Sscanf(text, "line %d:", &at.Line); err == nil {
		text = text[strings.Index(text, ": ")+2:]
	}
	if strings.HasPrefix(text, "did not find expected") && at.Line < bytes.Count(data, []byte("\n")) {
		at.Line++
	}
	r.AddProblem(at, "", "is no YAML from here on (%s): look for a bracket, a quote or an indentation that does not fit, and indent with spaces", text)
}

// Resolve returns the node, or the node that it is an alias of, and counts it as read. It returns nil, with a
// problem, for a node with a tag, and once aliases have made the file too large.
func (r *Reader) Resolve(n *yaml.Node, path string) *yaml.Node {
	at := PlaceOf(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if !r.countValues(1, at, path) {
		return nil
	}
	if n.Style&yaml.TaggedStyle != 0 {
		r.AddProblem(at, path, "has the tag %s: write plain values, without tags", n.Tag)
		return nil
	}
	return n
}

// countValues subtracts n from the number of values that may still be read. It returns false once that is used
// up, and adds a problem the first time.
func (r *Reader) countValues(n int, at Place, path string) bool {
	before := r.left
	r.left -= n
	if before > 0 && r.left <= 0 {
		r.AddProblem(at, path, "is too much: aliases and merges make the file many times as long; write less, or use fewer '*'")
	}
	return r.left > 0
}

// Entry is a key of a mapping with its value.
type Entry struct{ Key, Value *yaml.Node }

// Entries returns the entries of a mapping in order, and then those merged by <<, except keys that the mapping
// has itself. It leaves out invalid and repeated keys and adds a problem for each. It returns nil, with a
// problem, for a mapping merged into itself and for too many values.
func (r *Reader) Entries(n *yaml.Node, path string) (out []Entry) {
	if r.open[n] {
		r.AddProblem(PlaceOf(n), path, "is merged into itself: leave out one of the '<<'")
		return nil
	}
	if !r.countValues(len(n.Content), PlaceOf(n), path) {
		return nil
	}
	r.open[n] = true
	defer delete(r.open, n)
	lines := make(map[string]int, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch first, twice := lines[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			r.AddProblem(PlaceOf(key), path, "is no key: write a name")
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case twice:
			r.AddProblem(PlaceOf(key), path, "%q is given twice, first in line %d: remove one of them", key.Value, first)
		default:
			lines[key.Value] = key.Line
			out = append(out, Entry{key, value})
		}
	}
	brought := r.mergedEntries(merged, path)
	r.countValues(len(brought), PlaceOf(n), path)
	for _, e := range brought {
		if _, known := lines[e.Key.Value]; !known {
			lines[e.Key.Value] = e.Key.Line
			out = append(out, e)
		}
	}
	return out
}

// mergedEntries returns the entries of the mappings that a mapping merges by <<, in their order; equal keys may
// occur again. It adds a problem for any other merged value.
func (r *Reader) mergedEntries(values []*yaml.Node, path string) (out []Entry) {
	for _, from := range values {
		from = r.Resolve(from, path)
		if from != nil && from.Kind == yaml.SequenceNode {
			out = append(out, r.mergedEntries(from.Content, path)...)
		} else if from != nil && from.Kind == yaml.MappingNode {
			out = append(out, r.Entries(from, path)...)
		} else if from != nil {
			r.AddProblem(PlaceOf(from), path, "is merged with '<<' and is no mapping: name one with '*'")
		}
	}
	return out
}

// fillValue decodes a node into v, by v's type, and makes a value for a nil pointer. It adds problems under
// path, and then leaves v partly filled. If the form allows empty values, an empty node changes nothing.
func (r *Reader) fillValue(v reflect.Value, n *yaml.Node, path string) {
	if r.Empty == "" && isNull(n) {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if n = r.Resolve(n, path); n == nil {
		return
	}
	if r.Special != nil {
		if v = r.Special(r, v, n, path); !v.IsValid() {
			return
		}
	}
	var reason string
	switch {
	case v.Kind() == reflect.Struct || v.Kind() == reflect.Map:
		reason = r.fillMapping(v, n, path)
	case v.Kind() == reflect.Slice:
		reason = r.fillNames(v.Addr().Interface().(*[]string), n, path)
	case isNull(n):
		reason = "is empty: write a value, or leave the key out"
	case n.Kind != yaml.ScalarNode:
		reason = "is a list or a mapping: write one value, or leave the key out"
	default:
		reason = r.fillScalar(v, n)
	}
	if reason != "" {
		r.AddProblem(PlaceOf(n), path, "%s", reason)
	}
}

// fillNames appends a list of texts to *to. It returns the problem of the node as a text, and "" without one;
// texts before a wrong item stay.
func (r *Reader) fillNames(to *[]string, n *yaml.Node, path string) string {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 && r.Empty != "" {
		return "is no list: write one, such as [one, two], or leave the key out"
	}
	for _, item := range n.Content {
		if item = r.Resolve(item, path); item == nil {
			return ""
		}
		if item.Kind != yaml.ScalarNode || isNull(item) {
			return "has an item that is no text: write texts alone, such as [one, two]"
		}
		*to = append(*to, item.Value)
	}
	return ""
}

// fillScalar decodes a text into v, by v's type; types of the form's own go to Form.Scalar. It returns the
// problem of the text, and "" without one.
func (r *Reader) fillScalar(v reflect.Value, n *yaml.Node) (reason string) {
	switch to := v.Addr().Interface().(type) {
	case *string:
		*to = n.Value
	case *bool:
		if *to = n.Value == "true"; IsQuoted(n) || n.Value != "true" && n.Value != "false" {
			return fmt.Sprintf("is %q: write true or false", n.Value)
		}
	default:
		reason = r.Scalar(to, n.Value)
	}
	return reason
}

// isNull reports whether a node is empty or null.
func isNull(n *yaml.Node) bool { return n.ShortTag() == "!!null" }

// IsQuoted reports whether a scalar is written in quotes or as a block, so that it is a text.
func IsQuoted(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}

// fillMapping decodes a mapping into v, a struct or a new map, and stores the places of its keys in r.Places.
// It adds problems for unknown keys and invalid values. It returns the problem of the node itself as a text,
// and "" without one.
func (r *Reader) fillMapping(v reflect.Value, n *yaml.Node, path string) string {
	help := r.Help(v.Interface())
	switch {
	case r.Empty != "" && (isNull(n) || n.Kind == yaml.MappingNode && len(n.Content) == 0):
		return fmt.Sprintf("is empty: write %s, or leave the key out", help)
	case n.Kind == yaml.SequenceNode:
		return "is a list: write " + help
	case n.Kind == yaml.ScalarNode:
		return fmt.Sprintf("is %q: write %s", n.Value, help)
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, e := range r.Entries(n, path) {
		name, at := e.Key.Value, JoinPath(path, e.Key.Value)
		r.Places[at] = PlaceOf(e.Key)
		if v.Kind() == reflect.Map {
			one := reflect.New(v.Type().Elem()).Elem()
			r.fillValue(one, e.Value, at)
			v.SetMapIndex(reflect.ValueOf(name), one)
			continue
		}
		fields := r.structFields(v.Type())
		if i, known := fields.index[name]; known {
			r.fillValue(v.FieldByIndex(i), e.Value, at)
		} else {
			r.AddProblem(PlaceOf(e.Key), path, "%q is unknown here: write one of %s", name, strings.Join(fields.names, ", "))
		}
	}
	return ""
}

// fields are the keys of a struct, as its tags name them.
type fields struct {
	names []string
	index map[string][]int
}

// structFields returns the fields of a struct type by the names in their yaml tags, and caches them. Fields
// without such a name are left out.
func (r *Reader) structFields(t reflect.Type) fields {
	f, met := r.known[t]
	if met {
		return f
	}
	f.index = map[string][]int{}
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" {
			f.names, f.index[name] = append(f.names, name), field.Index
		}
	}
	r.known[t] = f
	return f
}

// JoinPath returns the path of a key below path. It quotes a key that has a dot or cannot be printed.
func JoinPath(path, key string) string {
	if strings.Contains(key, ".") || strings.ContainsFunc(key, func(c rune) bool { return !unicode.IsPrint(c) }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
