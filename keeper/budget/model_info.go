package budget

import "unicode/utf8"

// ModelInfo is an operator's description of a model. Prices.Put and Prices.Import do not change
// it.
type ModelInfo struct {
	// Tier is the operator's rank of the model, such as "premium". Defaults to "".
	Tier string `json:"tier,omitempty"`
	// Family is the model's family, such as "claude-3.5". Defaults to "".
	Family string `json:"family,omitempty"`
	// Description is a sentence about the model. Defaults to "".
	Description string `json:"description,omitempty"`
}

// validate returns a *fault.ValidationError unless each text is UTF-8 of at most maxName bytes.
func (i ModelInfo) validate() error {
	for _, field := range []struct{ name, text string }{{"tier", i.Tier}, {"family", i.Family}, {"description", i.Description}} {
		if len(field.text) > maxName || !utf8.ValidString(field.text) {
			return invalidConfig(field.name, "has more than %d bytes, or is no UTF-8", maxName)
		}
	}
	return nil
}
