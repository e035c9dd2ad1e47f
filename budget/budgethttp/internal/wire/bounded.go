package wire

import "github.com/danielgtaylor/huma/v2"

// Micros is an amount, or a quota, in millionths of a dollar.
type Micros int64

// Schema says what an amount of a map may be.
func (Micros) Schema(huma.Registry) *huma.Schema {
	low, high := 0.0, 1e12
	s := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &low, Maximum: &high}
	s.PrecomputeMessages()
	return s
}

// Tag is a value of a tag.
type Tag string

// Schema says what a value may be.
func (Tag) Schema(huma.Registry) *huma.Schema { return textOf(namePattern) }

// Ordering is labels, each once.
type Ordering []string

// Schema says what a label may be. That each is there once the keeper checks: huma does not
// survive elements that are lists.
func (Ordering) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: textOf(labelPattern), Extensions: map[string]any{"uniqueItems": true}}
}

// Quotas are amounts by label.
type Quotas map[string]Micros

// Schema says what a label and an amount may be.
func (Quotas) Schema(r huma.Registry) *huma.Schema { return byName(labelPattern, Micros(0).Schema(r)) }

// Models are model ids by label.
type Models map[string]string

// Schema says what a label and a model's id may be.
func (Models) Schema(huma.Registry) *huma.Schema {
	return byName(labelPattern, textOf("^[ -~]{1,256}$"))
}

// Tags are values by name.
type Tags map[string]Tag

// Schema says what a name and a value may be.
func (Tags) Schema(r huma.Registry) *huma.Schema { return byName(namePattern, Tag("").Schema(r)) }

// What tags and their names are, and what labels are.
const (
	namePattern  = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
	labelPattern = "^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$"
)

func textOf(pattern string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Pattern: pattern}
	s.PrecomputeMessages()
	return s
}

// byName is a map by names. huma does not look at names: the keeper does.
func byName(pattern string, value *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: value,
		Extensions: map[string]any{"propertyNames": map[string]any{"pattern": pattern}},
	}
}

// plain is a map as the keeper takes it, nil if it is empty.
func plain[From ~int64 | ~string, To ~int64 | ~string](in map[string]From, convert func(From) To) map[string]To {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]To, len(in))
	for k, v := range in {
		out[k] = convert(v)
	}
	return out
}

func micros(m Micros) int64  { return int64(m) }
func bounded(n int64) Micros { return Micros(n) }
func tagValue(t Tag) string  { return string(t) }
