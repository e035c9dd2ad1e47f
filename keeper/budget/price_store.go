package budget

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// Prices manages the stored prices of all organisations, in the name of its keeper. Make one
// with Keeper.Prices. It is safe for concurrent use and has no state.
type Prices struct{ k *Keeper }

// Prices returns the access to the stored prices of all organisations. Its changes carry this keeper's
// principal, see Keeper.As. It sends no request.
func (k *Keeper) Prices() *Prices { return &Prices{k} }

// keeper returns the keeper of p. It is nil for a nil p, so that methods of p return an error.
func (p *Prices) keeper() *Keeper {
	if p == nil {
		return nil
	}
	return p.k
}

// Get reads the stored prices of one model, of all scopes and starts, without those of Options and the catalog.
// It returns nil without an error if none are stored. An empty model id is a *fault.ValidationError.
func (p *Prices) Get(ctx context.Context, model string) ([]prices.Price, error) {
	k := p.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return nil, err
	}
	return k.admin.prices.getPrices(ctx, model)
}

// Models lists every model with a stored price or ModelInfo, in no order, by a consistent scan of the control
// table. It leaves out models of Options and the catalog. An error is the last element.
func (p *Prices) Models(ctx context.Context) iter.Seq2[StoredModel, error] {
	k := p.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return problem.ErrorList[StoredModel](err)
	}
	return k.admin.prices.listModels(ctx)
}

// Put replaces the stored prices of one model, at most 500, for all organisations. A version of
// a model is its own model. Stored prices take precedence over Options.Prices and the catalog.
// Without rows those apply again. Put also replaces a price that another caller stored after
// this caller's read: use Replace to change the prices that were read, and Add to store one
// price. It writes an audit.Event for audit.Price(model), unless the prices stay the same.
func (p *Prices) Put(ctx context.Context, model string, rows ...prices.Price) error {
	k := p.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return err
	}
	return k.admin.prices.putPrices(ctx, "Prices.Put", by, model, nil, rows)
}

// Replace is Put on the condition that the stored prices of the model still equal read, the
// result of Get.
//
// Errors: *fault.ValidationError, *fault.UnavailableError; ErrConflict if another caller has
// stored other prices since. Then it has written nothing: read again.
func (p *Prices) Replace(ctx context.Context, model string, read []prices.Price, rows ...prices.Price) error {
	k := p.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return err
	}
	return k.admin.prices.putPrices(ctx, "Prices.Replace", by, model, func(stored priceRows) error {
		if !slices.Equal(stored.Rows, priceRows{}.withPrices(read).Rows) {
			return fmt.Errorf("%w: the stored prices of %s are no longer those that were read", ErrConflict, model)
		}
		return nil
	}, rows)
}

// Add stores one price beside the stored prices of its model and returns its stored form. It
// replaces a price of the same scope and start. It reads and writes atomically, so no
// concurrent Add is lost. Otherwise it is like Put.
//
// Errors: *fault.ValidationError, also for a model's 501st price; ErrConflict,
// *fault.UnavailableError.
func (p *Prices) Add(ctx context.Context, price prices.Price) (prices.Price, error) {
	k := p.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return prices.Price{}, err
	}
	if price, err = storedForm(price); err != nil {
		return prices.Price{}, err
	}
	return price, k.admin.prices.replacePrices(ctx, "Prices.Add", by, price.Model, func(stored priceRows) ([]prices.Price, error) {
		kept := slices.DeleteFunc(stored.prices(), func(old prices.Price) bool {
			return old.Scope == price.Scope && old.EffectiveFrom.Equal(price.EffectiveFrom)
		})
		kept = append(kept, price)
		return kept, checkCount(kept)
	})
}

// Review returns the report that Import would return now, and writes nothing. It needs no principal.
//
// Errors: as Import.
func (p *Prices) Review(ctx context.Context, list prices.List, how PriceImport) (PriceReport, error) {
	k := p.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return PriceReport{}, err
	}
	job, err := k.admin.prices.newImport(ctx, list, how)
	if err != nil {
		return PriceReport{}, adminError("Review", err)
	}
	for _, name := range job.names {
		job.recordReview(name, job.newListing(name, job.stored[name], job.at).reviewList(job.at))
	}
	return job.buildReport(), nil
}

// Import compares a price list with the prices in force and stores the different, plausible
// ones. They apply from the next full second, or from the list's later day. Earlier calls keep
// their prices. Import holds back and reports a price above three times or below a third of the
// price in force or of the one of 30 days ago, a price of zero, and a price that would replace
// one put by hand. The price in force then stays. PriceImport.Accept overrides that.
//
// A model without a price is compared with the built-in models of its family. Models and cache
// classes without a price in the list keep theirs, except a cache price above the assumed one.
//
// Each model is written in one transaction, with an audit.Event of its audit.Price, on the
// condition that its prices have not changed since the read. So several processes may import at
// the same time, and a second import of the same list changes nothing. A failed import returns
// a report of its changes; the next one continues.
//
// Errors: *fault.ValidationError for an empty list, a bad name, or a model in Accept that the
// list lacks; *fault.UnavailableError; ErrConflict.
func (p *Prices) Import(ctx context.Context, list prices.List, how PriceImport) (PriceReport, error) {
	k := p.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return PriceReport{}, err
	}
	job, err := k.admin.prices.newImport(ctx, list, how)
	if err != nil {
		return PriceReport{}, adminError("Import", err)
	}
	// A version comes after the model whose price it may inherit. In reverse order it keeps its
	// own price before that price changes.
	backwards := slices.Clone(job.names)
	slices.Reverse(backwards)
	err = store.Each(ctx, slices.Values(backwards), func(ctx context.Context, name string) error {
		return k.admin.prices.importModel(ctx, by, job, name)
	})
	k.tenants.evictAll()
	return job.buildReport(), adminError("Import", err)
}

// Info reads a model's ModelInfo, and returns the zero value without an error if none is stored. It ignores the
// scope prefix of the id. An empty model id is a *fault.ValidationError.
func (p *Prices) Info(ctx context.Context, model string) (ModelInfo, error) {
	k := p.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return ModelInfo{}, err
	}
	name, _ := prices.SplitModel(model)
	if name == "" {
		return ModelInfo{}, invalidConfig("model", "%q is not a model id", model)
	}
	item, err := k.store.Get(ctx, k.store.Control, priceKey(name))
	if err != nil {
		return ModelInfo{}, wrapFailure("ModelInfo", err)
	}
	stored, err := decodePriceRows(item)
	return stored.modelInfo(), wrapFailure("ModelInfo", err)
}

// PutInfo replaces the ModelInfo of a model, also by empty texts, with an audit.Event of audit.Price(model). It leaves
// prices alone, and writes nothing if the info stays the same.
//
// Errors: *fault.ValidationError, ErrConflict, *fault.UnavailableError.
func (p *Prices) PutInfo(ctx context.Context, model string, info ModelInfo) error {
	k := p.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return err
	}
	if err := info.validate(); err != nil {
		return err
	}
	row := prices.Price{Model: model}
	if err := row.Validate(); err != nil {
		return err
	}
	name := row.Normalized().Model
	return adminError("PutInfo", k.admin.desk.commit(ctx, func() (*change, error) {
		return k.admin.prices.decidePrices(ctx, by, name, func(r priceRows) priceRows {
			r.Tier, r.Family, r.Description = info.Tier, info.Family, info.Description
			if r.Rows == nil {
				r.Rows = []priceRow{}
			}
			return r
		})
	}))
}
