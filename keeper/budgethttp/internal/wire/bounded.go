package wire

import "github.com/danielgtaylor/huma/v2"

// Ordering is labels, each once.
type Ordering []string

// Schema says what a label may be. That each is there once the keeper checks: huma does not
// survive elements that are lists.
func (Ordering) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: textOf(labelPattern), Extensions: map[string]any{"uniqueItems": true}}
}

// Quotas are amounts in millionths of a dollar, by label.
type Quotas map[string]int64

// Schema says what a label and an amount may be.
func (Quotas) Schema(huma.Registry) *huma.Schema {
	low, high := 0.0, 1e12
	amount := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &low, Maximum: &high}
	amount.PrecomputeMessages()
	return byName(labelPattern, amount)
}

// Models are model ids by label.
type Models map[string]string

// Schema says what a label and a model's id may be.
func (Models) Schema(huma.Registry) *huma.Schema {
	return byName(labelPattern, textOf("^[ -~]{1,256}$"))
}

// Tags are values by name.
type Tags map[string]string

// Schema says what a name and a value may be.
func (Tags) Schema(huma.Registry) *huma.Schema { return byName(namePattern, textOf(namePattern)) }

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
