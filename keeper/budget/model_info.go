package budget

import "unicode/utf8"

// ModelInfo is what an operator says of a model, for people. Prices.Put and Prices.Import
// leave it as it is.
type ModelInfo struct {
	// Tier is how the operator ranks it, such as "premium". Defaults to "".
	Tier string `json:"tier,omitempty"`
	// Family is what it belongs to, such as "claude-3.5". Defaults to "".
	Family string `json:"family,omitempty"`
	// Description is a sentence about it. Defaults to "".
	Description string `json:"description,omitempty"`
}

func (i ModelInfo) validate() error {
	for _, field := range []struct{ name, text string }{{"tier", i.Tier}, {"family", i.Family}, {"description", i.Description}} {
		if len(field.text) > maxName || !utf8.ValidString(field.text) {
			return invalidConfig(field.name, "has more than %d bytes, or is no UTF-8", maxName)
		}
	}
	return nil
}
