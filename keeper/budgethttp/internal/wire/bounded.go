package wire

import "github.com/danielgtaylor/huma/v2"

// Ordering is a list of distinct labels.
type Ordering []string

// Schema describes labels. The keeper checks that they are distinct, because huma panics for
// elements that are lists.
func (Ordering) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: textOf(labelPattern), Extensions: map[string]any{"uniqueItems": true}}
}

// Quotas are amounts in millionths of a dollar, by label.
type Quotas map[string]int64

// Schema describes labels and amounts.
func (Quotas) Schema(huma.Registry) *huma.Schema {
	low, high := 0.0, 1e12
	amount := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &low, Maximum: &high}
	amount.PrecomputeMessages()
	return byName(labelPattern, amount)
}

// Models maps labels to model ids.
type Models map[string]string

// Schema describes labels and model ids.
func (Models) Schema(huma.Registry) *huma.Schema {
	return byName(labelPattern, textOf("^[ -~]{1,256}$"))
}

// Tags maps names to values.
type Tags map[string]string

// Schema describes names and values.
func (Tags) Schema(huma.Registry) *huma.Schema { return byName(namePattern, textOf(namePattern)) }

// Patterns of tags and labels.
const (
	namePattern  = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
	labelPattern = "^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$"
)

func textOf(pattern string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Pattern: pattern}
	s.PrecomputeMessages()
	return s
}

// byName describes a map. The keeper checks the names, because huma does not.
func byName(pattern string, value *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: value,
		Extensions: map[string]any{"propertyNames": map[string]any{"pattern": pattern}},
	}
}
