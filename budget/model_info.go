package budget

import (
	"context"
	"unicode/utf8"
)

// ModelInfo is what an operator says of a model, for people. PutPrices and ImportPrices
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

// ModelInfo is what PutModelInfo stored of a model; the zero value where nothing is.
func (k *Keeper) ModelInfo(ctx context.Context, model string) (ModelInfo, error) {
	if err := k.usable(ctx); err != nil {
		return ModelInfo{}, err
	}
	name, _ := splitModel(model)
	if name == "" {
		return ModelInfo{}, invalidConfig("model", "%q is not a model id", model)
	}
	item, err := k.admin.store.Get(ctx, k.admin.store.Control, priceKey(name))
	if err != nil {
		return ModelInfo{}, failure("ModelInfo", err)
	}
	stored, err := decodePriceRows(item)
	return stored.info(), failure("ModelInfo", err)
}

// PutModelInfo stores what is said of a model, with an AuditEvent of PriceTarget(model),
// and leaves its prices alone. What is stored already is not written again.
func (k *Keeper) PutModelInfo(ctx context.Context, model string, info ModelInfo) error {
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	if err := info.validate(); err != nil {
		return err
	}
	p := Price{Model: model}
	if err := p.validate(); err != nil {
		return err
	}
	name := p.normal().Model
	return adminError("PutModelInfo", k.admin.commit(ctx, func() (*change, error) {
		return k.admin.decidePrices(ctx, by, name, func(r priceRows) priceRows {
			r.Tier, r.Family, r.Description = info.Tier, info.Family, info.Description
			if r.Rows == nil {
				r.Rows = []priceRow{}
			}
			return r
		})
	}))
}
