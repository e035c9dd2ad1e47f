package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/yamlfile"
)

// metadata is any value as JSON; nil for none.
type metadata json.RawMessage

var jsonNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)

// metadataAt converts the YAML value at a node to JSON values: maps, slices, texts, bools, nil, and numbers as
// they are written. It adds faults and too deep nesting to r under path. depth is 0 for the whole value.
func metadataAt(r *yamlfile.Reader, n *yaml.Node, path string, depth int) any {
	if n = r.Resolve(n, path); n == nil {
		return nil
	}
	if depth > schema.MaxMetadataDepth {
		r.AddProblem(yamlfile.PlaceOf(n), path, "is nested too deep: at most %d levels are allowed", schema.MaxMetadataDepth)
		return nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i, item := range n.Content {
			items[i] = metadataAt(r, item, below(path, strconv.Itoa(i)), depth+1)
		}
		return items
	case yaml.MappingNode:
		values := map[string]any{}
		for _, e := range r.Entries(n, path) {
			values[e.Key.Value] = metadataAt(r, e.Value, below(path, e.Key.Value), depth+1)
		}
		return values
	}
	return metadataScalar(r, n, path)
}

// metadataScalar returns the JSON value of a YAML scalar: nil, a bool, a json.Number as it is written, or a
// string. It adds a number that JSON cannot express to r's problems and returns its text.
func metadataScalar(r *yamlfile.Reader, n *yaml.Node, path string) any {
	switch tag := n.ShortTag(); {
	case yamlfile.IsQuoted(n):
	case tag == "!!null":
		return nil
	case n.Value == "true" || n.Value == "false":
		return n.Value == "true"
	case jsonNumber.MatchString(n.Value):
		return json.Number(n.Value)
	case tag == "!!int" || tag == "!!float":
		r.AddProblem(yamlfile.PlaceOf(n), path, "is %s, which JSON does not have as a number: write it in decimal digits, or in quotes", n.Value)
	}
	return n.Value
}

// encodeJSON returns a value as JSON, without escaping < and >.
func encodeJSON(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // cannot fail: the value was decoded from JSON
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decodeJSON decodes the first JSON value of a text, with its numbers as json.Number. For a duplicate key it
// takes the last value. ok is false for invalid JSON.
func decodeJSON(text []byte) (value any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return value, d.Decode(&value) == nil
}

// MarshalYAML returns the value as a node in flow style, with sorted keys and strings in quotes. The encoder
// may still break a long line.
func (m metadata) MarshalYAML() (any, error) {
	value, _ := decodeJSON(m)
	return flowNode(value), nil
}

// MarshalJSON writes the value as JSON without spaces, with sorted keys.
func (m metadata) MarshalJSON() ([]byte, error) {
	value, _ := decodeJSON(m)
	return encodeJSON(value), nil
}

// flowNode converts a decoded JSON value to a YAML node in flow style, with sorted keys and quoted strings.
func flowNode(value any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.FlowStyle}
	switch v := value.(type) {
	case map[string]any:
		n.Kind = yaml.MappingNode
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, flowNode(key), flowNode(v[key]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, item := range v {
			n.Content = append(n.Content, flowNode(item))
		}
	case string:
		n.Style, n.Tag, n.Value = yaml.DoubleQuotedStyle, "!!str", v
	case nil:
		n.Value = "null"
	default: // a number, true or false
		n.Value = fmt.Sprint(v)
	}
	return n
}

// sameJSON reports whether two texts are the same value, apart from spaces, the order of keys,
// and the spelling of numbers.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || canonicalJSON(a) == canonicalJSON(b)
}

// canonicalJSON returns a JSON value in canonical spelling, to compare values. It returns "" for null and for
// an empty text, and invalid JSON as it is.
func canonicalJSON(text json.RawMessage) string {
	value, ok := decodeJSON(text)
	switch {
	case !ok:
		return string(text)
	case value == nil:
		return ""
	}
	return string(encodeJSON(canonicalValue(value)))
}

// canonicalValue returns a decoded JSON value with every number in the form of canonicalNumber. It changes
// lists and maps in place.
func canonicalValue(value any) any {
	switch v := value.(type) {
	case json.Number:
		return json.Number(canonicalNumber(v.String()))
	case []any:
		for i := range v {
			v[i] = canonicalValue(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = canonicalValue(v[key])
		}
	}
	return value
}

var shortExponent = regexp.MustCompile(`^[^eE]*(?:[eE][-+]?[0-9]{1,3})?$`)

// canonicalNumber returns a JSON number in decimal digits, without an exponent, so that equal numbers are equal
// texts. It returns one with an exponent of more than three digits unchanged.
func canonicalNumber(text string) string {
	if shortExponent.MatchString(text) {
		if n, ok := new(big.Rat).SetString(text); ok {
			digits, _ := n.FloatPrec() // exact: only powers of ten
			return n.FloatString(digits)
		}
	}
	return text
}

// btoi returns 1 for true and 0 for false.
func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
