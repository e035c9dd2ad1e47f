package manifest

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

// MaxSize is how long a manifest may be, in bytes: about 50,000 entities.
const MaxSize = 16 << 20

// place is where something stands, from 1; 0 for the file as a whole.
type place struct{ line, column int }

// placeIn is the place of a byte of a text.
func placeIn(data []byte, i int) place {
	start := bytes.LastIndexByte(data[:i], '\n') + 1
	return place{bytes.Count(data[:i], []byte("\n")) + 1, utf8.RuneCount(data[start:i]) + 1}
}

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

// reader fills values from the YAML of one file.
type reader struct {
	file     string
	problems Problems
	wronged  map[string]bool         // paths at or below which something is wrong
	places   map[string]place        // of keys, by their paths
	left     int                     // values that may still be read: aliases make few of them many
	open     map[*yaml.Node]bool     // mappings whose entries are being read
	known    map[reflect.Type]fields // of types that were met
}

func newReader(file string, data []byte) *reader {
	return &reader{
		file: file, wronged: map[string]bool{}, places: map[string]place{}, left: 1<<18 + 2*len(data),
		open: map[*yaml.Node]bool{}, known: map[reflect.Type]fields{},
	}
}

func (r *reader) wrong(at place, path, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, at.line, at.column, path, fmt.Sprintf(format, args...)})
	for more := path != ""; more; path, more = cutLast(path) {
		r.wronged[path] = true
	}
}

func cutLast(path string) (string, bool) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], i >= 0
}

// document is the value of the only document of a file; nil if there is none.
func (r *reader) document(data []byte) *yaml.Node {
	if !r.isText(data) {
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		r.syntax(err, data)
		return nil
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		r.wrong(place{}, "", "is empty: write at least a level, such as 'system: {limits: {rpm: 100}}', or print a table's with 'dynalimit manifest export'")
		return nil
	}
	switch err := d.Decode(&second); {
	case err == nil:
		r.wrong(placeOf(second.Content[0]), "", "is a second document: a manifest is one; put the other into a file of its own")
		return nil
	case !errors.Is(err, io.EOF):
		r.syntax(err, data)
		return nil
	}
	return doc.Content[0]
}

// isText refuses what is too long or not UTF-8.
func (r *reader) isText(data []byte) bool {
	if len(data) > MaxSize {
		r.wrong(place{}, "", "has %d bytes, and a manifest has at most %d: split it into several, each with a name of its own", len(data), MaxSize)
		return false
	}
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 || unicode.IsControl(c) && !strings.ContainsRune("\n\r\t", c) {
			r.wrong(placeIn(data, i), "", "has the byte 0x%02x, which is no text: save the file as UTF-8, and write control characters as \"\\u0085\"", data[i])
			return false
		}
		i += size
	}
	return true
}

// syntax reports what is no YAML. The library tells the line alone, for what its parser
// refuses the one before, and none in the first.
func (r *reader) syntax(err error, data []byte) {
	text, at := strings.TrimPrefix(err.Error(), "yaml: "), place{1, 1}
	if name, ok := strings.CutPrefix(text, "unknown anchor '"); ok {
		name, _, _ = strings.Cut(name, "'")
		r.wrong(placeIn(data, max(bytes.Index(data, []byte("*"+name)), 0)), "", "*%s stands for nothing: no &%s stands above it", name, name)
		return
	}
	if _, err := fmt.Sscanf(text, "line %d:", &at.line); err == nil {
		text = text[strings.Index(text, ": ")+2:]
	}
	if strings.HasPrefix(text, "did not find expected") && at.line < bytes.Count(data, []byte("\n")) {
		at.line++
	}
	r.wrong(at, "", "is no YAML from here on (%s): look for a bracket, a quote or an indentation that does not fit, and indent with spaces", text)
}

// look is what stands at a node, for an alias what it names. It is nil once too much was
// read, and for what a manifest has no use for.
func (r *reader) look(n *yaml.Node, path string) *yaml.Node {
	at := placeOf(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if !r.spend(1, at, path) {
		return nil
	}
	if n.Style&yaml.TaggedStyle != 0 {
		r.wrong(at, path, "has the tag %s: write plain values, without tags", n.Tag)
		return nil
	}
	return n
}

// spend counts values that are read. It is false once they are too many.
func (r *reader) spend(n int, at place, path string) bool {
	before := r.left
	r.left -= n
	if before > 0 && r.left <= 0 {
		r.wrong(at, path, "is too much: aliases and merges make the file many times as long; write less, or use fewer '*'")
	}
	return r.left > 0
}

// entry is a key of a mapping with its value.
type entry struct{ key, value *yaml.Node }

// entries are those of a mapping; what it merges comes last, where it has no key of that name.
func (r *reader) entries(n *yaml.Node, path string) (out []entry) {
	if r.open[n] {
		r.wrong(placeOf(n), path, "is merged into itself: leave out one of the '<<'")
		return nil
	}
	if !r.spend(len(n.Content), placeOf(n), path) {
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
			r.wrong(placeOf(key), path, "is no key: write a name")
		case key.Tag == "!!merge":
			merged = append(merged, value)
		case twice:
			r.wrong(placeOf(key), path, "%q stands twice here, first in line %d: remove one of them", key.Value, first)
		default:
			lines[key.Value] = key.Line
			out = append(out, entry{key, value})
		}
	}
	brought := r.merged(merged, path)
	r.spend(len(brought), placeOf(n), path)
	for _, e := range brought {
		if _, known := lines[e.key.Value]; !known {
			lines[e.key.Value] = e.key.Line
			out = append(out, e)
		}
	}
	return out
}

// merged are the entries of what a mapping merges, the ones that win first.
func (r *reader) merged(values []*yaml.Node, path string) (out []entry) {
	for _, from := range values {
		from = r.look(from, path)
		if from != nil && from.Kind == yaml.SequenceNode {
			out = append(out, r.merged(from.Content, path)...)
		} else if from != nil && from.Kind == yaml.MappingNode {
			out = append(out, r.entries(from, path)...)
		} else if from != nil {
			r.wrong(placeOf(from), path, "is merged with '<<' and is no mapping: name one with '*'")
		}
	}
	return out
}

// fill fills a value from a node.
func (r *reader) fill(v reflect.Value, n *yaml.Node, path string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if n = r.look(n, path); n == nil {
		return
	}
	switch to := v.Addr().Interface().(type) {
	case *metadata:
		*to = encoded(r.value(n, path, 0))
		return
	case *entity:
		if n.ShortTag() == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			return
		}
	case *limit:
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			v = reflect.ValueOf(&to.Capacity).Elem()
		}
	}
	var reason string
	switch {
	case v.Kind() == reflect.Struct || v.Kind() == reflect.Map:
		reason = r.mapping(v, n, path)
	case v.Kind() == reflect.Slice:
		reason = r.names(v.Addr().Interface().(*[]string), n, path)
	case n.ShortTag() == "!!null":
		reason = "is empty: write a value, or leave the key out"
	case n.Kind != yaml.ScalarNode:
		reason = "is a list or a mapping: write one value, or leave the key out"
	default:
		reason = scalar(v, n)
	}
	if reason != "" {
		r.wrong(placeOf(n), path, "%s", reason)
	}
}

// names fills a list of names, or says why it cannot.
func (r *reader) names(to *[]string, n *yaml.Node, path string) string {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return "is no list of names: write one, such as [all, openai], or leave the key out"
	}
	for _, item := range n.Content {
		if item = r.look(item, path); item == nil {
			return ""
		}
		if item.Kind != yaml.ScalarNode || item.ShortTag() == "!!null" {
			return "has an item that is no name: write names alone, such as [all, openai]"
		}
		*to = append(*to, item.Value)
	}
	return ""
}

// scalar fills a value from a text, or says why it cannot.
func scalar(v reflect.Value, n *yaml.Node) (reason string) {
	switch to := v.Addr().Interface().(type) {
	case *string:
		*to = n.Value
	case *bool:
		if *to = n.Value == "true"; isQuoted(n) || n.Value != "true" && n.Value != "false" {
			return fmt.Sprintf("is %q: write true or false", n.Value)
		}
	case *amount:
		*to, reason = parseAmount(n.Value)
	case *capacity:
		*to, reason = parseCapacity(n.Value)
	case *unit:
		*to, reason = parseUnit(n.Value)
	case *period:
		*to, reason = parsePeriod(n.Value)
	case *window:
		*to, reason = parseWindow(n.Value)
	case *zone:
		*to, reason = parseZone(n.Value)
	case *seconds:
		*to, reason = parseSeconds(n.Value)
	}
	return reason
}

func isQuoted(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}

// mapping fills a struct or a map, or says why it cannot.
func (r *reader) mapping(v reflect.Value, n *yaml.Node, path string) string {
	help := v.Interface().(interface{ help() string }).help()
	switch {
	case n.ShortTag() == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return fmt.Sprintf("is empty: write %s, or leave the key out", help)
	case n.Kind == yaml.SequenceNode:
		return "is a list: write " + help
	case n.Kind == yaml.ScalarNode:
		return fmt.Sprintf("is %q: write %s", n.Value, help)
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, e := range r.entries(n, path) {
		name, at := e.key.Value, below(path, e.key.Value)
		r.places[at] = placeOf(e.key)
		if v.Kind() == reflect.Map {
			one := reflect.New(v.Type().Elem()).Elem()
			r.fill(one, e.value, at)
			v.SetMapIndex(reflect.ValueOf(name), one)
			continue
		}
		fields := r.fieldsOf(v.Type())
		if i, known := fields.index[name]; known {
			r.fill(v.FieldByIndex(i), e.value, at)
		} else {
			r.wrong(placeOf(e.key), path, "%q is unknown here: write one of %s", name, strings.Join(fields.names, ", "))
		}
	}
	return ""
}

// fields are the keys of a struct, as its tags name them.
type fields struct {
	names []string
	index map[string][]int
}

func (r *reader) fieldsOf(t reflect.Type) fields {
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

// below is the path of a key; one with a dot, or that cannot be printed, is quoted.
func below(path, key string) string {
	if strings.Contains(key, ".") || strings.ContainsFunc(key, func(c rune) bool { return !unicode.IsPrint(c) }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
