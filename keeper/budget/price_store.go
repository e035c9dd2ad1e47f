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

// Prices are the stored prices, for all organisations, changed in the name of the keeper.
// Make one with Keeper.Prices. It is safe for concurrent use and has no state of its own.
type Prices struct{ k *Keeper }

// Prices are the stored prices, changed in this keeper's name, see Keeper.As.
func (k *Keeper) Prices() *Prices { return &Prices{k} }

func (p *Prices) keeper() *Keeper {
	if p == nil {
		return nil
	}
	return p.k
}

// Get are the stored prices of one model, in the order they were put; those
// of Options and the Catalog are not among them.
func (p *Prices) Get(ctx context.Context, model string) ([]prices.Price, error) {
	k := p.keeper()
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	return k.admin.prices.get(ctx, model)
}

// Models lists every model of which a price or a ModelInfo is stored, in no order.
// It scans the control table, consistently.
func (p *Prices) Models(ctx context.Context) iter.Seq2[StoredModel, error] {
	k := p.keeper()
	if err := k.usable(ctx); err != nil {
		return problem.List[StoredModel](err)
	}
	return k.admin.prices.models(ctx)
}

// Put replaces the stored prices of one model, at most 500, for all organisations; a
// version of a model is a model of its own. They come before Options.Prices and the
// catalog. No rows: back to those. It replaces also a price that somebody else has stored since
// the caller read them: to change what was read use Replace, to store one price Add. It writes an
// audit.Event of audit.Price(model), unless just those prices are stored already.
func (p *Prices) Put(ctx context.Context, model string, rows ...prices.Price) error {
	k := p.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	return k.admin.prices.put(ctx, "Prices.Put", by, model, nil, rows)
}

// Replace is Put if the stored prices of the model are still those that Get returned; empty if it
// returned none.
//
// Errors: *fault.ValidationError, *fault.UnavailableError; ErrConflict if somebody else stored
// others since, and then nothing was written: read them again.
func (p *Prices) Replace(ctx context.Context, model string, read []prices.Price, rows ...prices.Price) error {
	k := p.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	return k.admin.prices.put(ctx, "Prices.Replace", by, model, func(stored priceRows) error {
		if !slices.Equal(stored.Rows, priceRows{}.with(read).Rows) {
			return fmt.Errorf("%w: the stored prices of %s are no longer those that were read", ErrConflict, model)
		}
		return nil
	}, rows)
}

// Add stores a price beside those that are stored of its model, in the place of the one of the
// same scope and the same beginning, and returns it as it is stored. It reads and writes them in
// one step: of several that add at the same time none is lost. Else it is as Put.
//
// Errors: *fault.ValidationError, also for price 501 of a model; ErrConflict, *fault.UnavailableError.
func (p *Prices) Add(ctx context.Context, price prices.Price) (prices.Price, error) {
	k := p.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return prices.Price{}, err
	}
	if price, err = storable(price); err != nil {
		return prices.Price{}, err
	}
	return price, k.admin.prices.replace(ctx, "Prices.Add", by, price.Model, func(stored priceRows) ([]prices.Price, error) {
		kept := slices.DeleteFunc(stored.prices(), func(old prices.Price) bool {
			return old.Scope == price.Scope && old.EffectiveFrom.Equal(price.EffectiveFrom)
		})
		kept = append(kept, price)
		return kept, checkCount(kept)
	})
}

// Review says what Import would do, and writes nothing. Errors are its.
func (p *Prices) Review(ctx context.Context, list prices.List, how PriceImport) (PriceReport, error) {
	k := p.keeper()
	if err := k.usable(ctx); err != nil {
		return PriceReport{}, err
	}
	job, err := k.admin.prices.newImport(ctx, list, how)
	if err != nil {
		return PriceReport{}, adminError("Review", err)
	}
	for _, name := range job.names {
		job.reviewed(name, job.listing(name, job.stored[name], job.at).review(job.at))
	}
	return job.report(), nil
}

// Import compares a price list with the prices in force, and stores those that
// differ and are plausible. They are in force from the moment they are stored, to the
// next full second, or from the later day that the list says; what was counted, and what
// is still to be counted of a time before, keeps its price. Held back and reported are
// prices above three times or below a third of the one in force or of the one of 30 days ago, of
// zero, and in the place of what was put by hand; what is in force stays so. PriceImport.Accept takes
// them.
//
// A model that has no price yet is compared with the built-in models of its family, and gets the
// list's. Models and cache classes that the list has none for keep theirs, but no cache price that is
// dearer than where none is known.
//
// Each model is written in one transaction, with an audit.Event of its audit.Price, if its
// prices are still what they were: several processes may import at the same time, and what
// is imported again changes nothing. An import that fails has a report of what it did;
// another goes on from there.
//
// Errors: *fault.ValidationError for an empty list, a bad name or one in Accept that the list
// does not have; *fault.UnavailableError; ErrConflict.
func (p *Prices) Import(ctx context.Context, list prices.List, how PriceImport) (PriceReport, error) {
	k := p.keeper()
	by, err := k.author(ctx)
	if err != nil {
		return PriceReport{}, err
	}
	job, err := k.admin.prices.newImport(ctx, list, how)
	if err != nil {
		return PriceReport{}, adminError("Import", err)
	}
	// A version comes after the model whose price it may have: backwards, it keeps its own
	// before that changes.
	backwards := slices.Clone(job.names)
	slices.Reverse(backwards)
	err = store.Each(ctx, slices.Values(backwards), func(ctx context.Context, name string) error {
		return k.admin.prices.importModel(ctx, by, job, name)
	})
	k.tenants.evictAll()
	return job.report(), adminError("Import", err)
}

// Info is what PutInfo stored of a model; the zero value where nothing is.
func (p *Prices) Info(ctx context.Context, model string) (ModelInfo, error) {
	k := p.keeper()
	if err := k.usable(ctx); err != nil {
		return ModelInfo{}, err
	}
	name, _ := prices.SplitModel(model)
	if name == "" {
		return ModelInfo{}, invalidConfig("model", "%q is not a model id", model)
	}
	item, err := k.store.Get(ctx, k.store.Control, priceKey(name))
	if err != nil {
		return ModelInfo{}, failure("ModelInfo", err)
	}
	stored, err := decodePriceRows(item)
	return stored.info(), failure("ModelInfo", err)
}

// PutInfo stores what is said of a model, with an audit.Event of audit.Price(model),
// and leaves its prices alone. What is stored already is not written again.
func (p *Prices) PutInfo(ctx context.Context, model string, info ModelInfo) error {
	k := p.keeper()
	by, err := k.author(ctx)
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
		return k.admin.prices.decide(ctx, by, name, func(r priceRows) priceRows {
			r.Tier, r.Family, r.Description = info.Tier, info.Family, info.Description
			if r.Rows == nil {
				r.Rows = []priceRow{}
			}
			return r
		})
	}))
}
