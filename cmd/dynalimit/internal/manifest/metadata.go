package manifest

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// metadata reads any value as JSON.
func (d *decoder) metadata(to *json.RawMessage) func(*node, string) {
	return func(n *node, path string) {
		before := len(d.problems)
		var b bytes.Buffer
		d.json(&b, n, path, 0)
		text := b.Bytes()
		if len(d.problems) > before || n.kind == nothing {
			return
		}
		if reason := schema.CheckMetadata(text); reason != "" {
			d.wrong(n.line, n.column, path, "%s", reason)
			return
		}
		*to = text
	}
}

var jsonNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)

// otherNumber is what some readers of YAML take for a number, or for none.
var otherNumber = regexp.MustCompile(`^[-+]?(?:\.?[0-9][0-9_.xoXOa-fA-F]*|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)

// bounds are how long and deep a value may be as JSON, and whether it has amounts.
type bounds struct {
	bytes, depth int
	amounts      bool
}

var (
	ofMetadata = bounds{schema.MaxMetadata, schema.MaxMetadataDepth, false}
	unbounded  = bounds{1 << 40, 1 << 20, true}
)

// json writes a value. It stops writing once the text is longer than can be stored.
func (d *decoder) json(b *bytes.Buffer, n *node, path string, depth int) {
	if !d.enough(n, path) || b.Len() > d.bounds.bytes || depth > d.bounds.depth {
		b.WriteString("null") // too much was said, or will be
		if depth > d.bounds.depth {
			d.wrong(n.line, n.column, path, "is nested too deep: at most %d levels are allowed", d.bounds.depth)
		}
		return
	}
	switch n.kind {
	case nothing:
		b.WriteString("null")
	case scalar:
		d.jsonScalar(b, n, path)
	case sequence:
		for i, item := range n.items {
			b.WriteByte(",["[btoi(i == 0)])
			d.json(b, item, below(path, strconv.Itoa(i)), depth+1)
		}
		b.WriteString("[]"[btoi(len(n.items) > 0):])
	case mapping:
		for i, e := range n.entries {
			b.WriteByte(",{"[btoi(i == 0)])
			writeJSON(b, e.key)
			b.WriteByte(':')
			d.json(b, e.value, below(path, e.key), depth+1)
		}
		b.WriteString("{}"[btoi(len(n.entries) > 0):])
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (d *decoder) jsonScalar(b *bytes.Buffer, n *node, path string) {
	digits := strings.ReplaceAll(n.text, "_", "")
	switch {
	case d.bounds.amounts && !n.quoted && amountText.MatchString(n.text) && jsonNumber.MatchString(digits):
		b.WriteString(digits) // 10_000
	case !n.quoted && (n.text == "true" || n.text == "false" || jsonNumber.MatchString(n.text)):
		b.WriteString(n.text)
	case !n.quoted && otherNumber.MatchString(n.text):
		d.wrong(n.line, n.column, path, "is %s, which JSON does not have as a number: write it in decimal digits, or in quotes", n.text)
		b.WriteString("null")
	default:
		writeJSON(b, n.text)
	}
}

// writeJSON writes a text in quotes; < and > stay what they are.
func writeJSON(b *bytes.Buffer, text string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text is always JSON, and a buffer takes it
	b.Truncate(b.Len() - 1)
}

// sameJSON says whether two texts are the same value: spaces, the order of keys and the
// spelling of numbers say nothing.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || canonical(a) == canonical(b)
}

// canonical is the one spelling of a value; "" for none, and for null.
func canonical(text json.RawMessage) string {
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if len(text) == 0 || d.Decode(&value) != nil {
		return string(text)
	}
	if value == nil {
		return ""
	}
	var b bytes.Buffer
	writeCanonical(&b, value)
	return b.String()
}

func writeCanonical(b *bytes.Buffer, value any) {
	switch v := value.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case string:
		writeJSON(b, v)
	case json.Number:
		b.WriteString(canonicalNumber(v.String()))
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, item)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, key)
			b.WriteByte(':')
			writeCanonical(b, v[key])
		}
		b.WriteByte('}')
	}
}

var shortExponent = regexp.MustCompile(`^[^eE]*(?:[eE][-+]?[0-9]{1,3})?$`)

// canonicalNumber is a number as a fraction; one that is too large for that stays as it is.
func canonicalNumber(text string) string {
	if shortExponent.MatchString(text) {
		if n, ok := new(big.Rat).SetString(text); ok {
			return n.RatString()
		}
	}
	return text
}

// withKeysOnce is a text whose objects have no key twice, as YAML wants: the last one holds,
// as it does where the text is read.
func withKeysOnce(text json.RawMessage) json.RawMessage {
	if !hasKeyTwice(text) {
		return text
	}
	var value any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return text
	}
	once, err := json.Marshal(value)
	if err != nil {
		return text
	}
	return once
}

// hasKeyTwice reports whether an object within a text has a key twice.
func hasKeyTwice(text json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type value struct {
		keys map[string]bool // nil for an array
		seen int             // keys and values of it
	}
	open := []value{{}}
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		in := &open[len(open)-1]
		if key, ok := token.(string); ok && in.keys != nil && in.seen%2 == 0 {
			if in.keys[key] {
				return true
			}
			in.keys[key] = true
		}
		in.seen++
		switch token {
		case json.Delim('{'):
			open = append(open, value{keys: map[string]bool{}})
		case json.Delim('['):
			open = append(open, value{})
		}
	}
}
