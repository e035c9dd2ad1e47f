package wire

import "github.com/danielgtaylor/huma/v2"

// Ordering is a list of distinct labels.
type Ordering []string

// Schema returns the schema of a list of labels, for the API's document. The keeper checks that they are
// distinct, because huma panics for elements that are lists.
func (Ordering) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: textSchema(labelPattern), Extensions: map[string]any{"uniqueItems": true}}
}

// Quotas are amounts in millionths of a dollar, by label.
type Quotas map[string]int64

// Schema returns the schema of quotas, for the API's document: labels with amounts.
func (Quotas) Schema(huma.Registry) *huma.Schema {
	low, high := 0.0, 1e12
	amount := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &low, Maximum: &high}
	amount.PrecomputeMessages()
	return mapSchema(labelPattern, amount)
}

// Models maps labels to model ids.
type Models map[string]string

// Schema returns the schema of models, for the API's document: labels with model ids.
func (Models) Schema(huma.Registry) *huma.Schema {
	return mapSchema(labelPattern, textSchema("^[ -~]{1,256}$"))
}

// Tags maps names to values.
type Tags map[string]string

// Schema returns the schema of tags, for the API's document: names with values.
func (Tags) Schema(huma.Registry) *huma.Schema {
	return mapSchema(namePattern, textSchema(namePattern))
}

// Patterns of tags and labels.
const (
	namePattern  = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
	labelPattern = "^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$"
)

// textSchema returns the schema of texts that match a pattern.
func textSchema(pattern string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Pattern: pattern}
	s.PrecomputeMessages()
	return s
}

// mapSchema returns the schema of a map with names that match pattern. The keeper checks the names, because
// huma does not.
func mapSchema(pattern string, value *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: value,
		Extensions: map[string]any{"propertyNames": map[string]any{"pattern": pattern}},
	}
}
