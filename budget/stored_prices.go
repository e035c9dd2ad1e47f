package budget

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// priceRow is a stored price.
type priceRow struct {
	Model         string     `dynamodbav:"model"`
	Scope         PriceScope `dynamodbav:"scope,omitempty"`
	EffectiveFrom int64      `dynamodbav:"effective_from,omitempty"` // unix seconds
	Input         int64      `dynamodbav:"input"`
	Output        int64      `dynamodbav:"output"`
	CacheRead     int64      `dynamodbav:"cache_read,omitempty"`
	CacheWrite5m  int64      `dynamodbav:"cache_write_5m,omitempty"`
	CacheWrite1h  int64      `dynamodbav:"cache_write_1h,omitempty"`
	List          string     `dynamodbav:"list,omitempty"`
}

// newPriceRow is a price as it is stored.
func newPriceRow(p Price) priceRow {
	r := priceRow{
		Model: p.Model, Scope: p.Scope, Input: p.Input, Output: p.Output,
		CacheRead: p.CacheRead, CacheWrite5m: p.CacheWrite5m, CacheWrite1h: p.CacheWrite1h,
		List: p.List,
	}
	if !p.EffectiveFrom.IsZero() {
		r.EffectiveFrom = p.EffectiveFrom.Unix()
	}
	return r
}

// price is the inverse of newPriceRow.
func (r priceRow) price() Price {
	p := Price{Model: r.Model, Scope: r.Scope, List: r.List, Rates: Rates{
		Input: r.Input, Output: r.Output, CacheRead: r.CacheRead, CacheWrite5m: r.CacheWrite5m, CacheWrite1h: r.CacheWrite1h,
	}}
	if r.EffectiveFrom != 0 {
		p.EffectiveFrom = time.Unix(r.EffectiveFrom, 0).UTC()
	}
	return p
}

// priceRows is the item of a model's prices, with what is said of the model.
type priceRows struct {
	Rows        []priceRow `dynamodbav:"rows"`
	Tier        string     `dynamodbav:"tier,omitempty"`
	Family      string     `dynamodbav:"family,omitempty"`
	Description string     `dynamodbav:"description,omitempty"`
}

// priceAttributes are those of an item of prices.
var priceAttributes = []string{"rows", "tier", "family", "description"}

// info is what is said of the model.
func (r priceRows) info() ModelInfo { return ModelInfo{r.Tier, r.Family, r.Description} }

func (r priceRows) prices() []Price {
	prices := make([]Price, len(r.Rows))
	for i, row := range r.Rows {
		prices[i] = row.price()
	}
	return prices
}

func decodePriceRows(item store.Item) (stored priceRows, err error) {
	if err := attributevalue.UnmarshalMap(item, &stored); err != nil {
		return priceRows{}, fmt.Errorf("%w: prices: %w", store.ErrMalformed, err)
	}
	return stored, nil
}

func decodePrices(item store.Item) ([]Price, error) {
	stored, err := decodePriceRows(item)
	return stored.prices(), err
}

// Prices are the stored prices of one model, in the order they were put; those
// of Options and the Catalog are not among them.
func (k *Keeper) Prices(ctx context.Context, model string) ([]Price, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	return k.admin.prices(ctx, model)
}

func (adm *administration) prices(ctx context.Context, model string) ([]Price, error) {
	name, _ := splitModel(model)
	if name == "" {
		return nil, invalidConfig("model", "%q is not a model id", model)
	}
	item, err := adm.store.Get(ctx, adm.store.Control, priceKey(name))
	if err != nil || item == nil {
		return nil, failure("Prices", err)
	}
	rows, err := decodePrices(item)
	return rows, failure("Prices", err)
}

// StoredModel is what is stored of a model.
type StoredModel struct {
	// Model is its id, without a prefix for where it is served.
	Model string
	// Info is what PutModelInfo stored.
	Info ModelInfo
	// Prices are the stored ones, in the order they were put; none where only Info is.
	Prices []Price
}

// StoredModels lists every model of which a price or a ModelInfo is stored, in no order.
// It scans the control table, consistently.
func (k *Keeper) StoredModels(ctx context.Context) iter.Seq2[StoredModel, error] {
	if err := k.usable(ctx); err != nil {
		return problem.List[StoredModel](err)
	}
	return k.admin.storedModels(ctx)
}

func (adm *administration) storedModels(ctx context.Context) iter.Seq2[StoredModel, error] {
	return func(yield func(StoredModel, error) bool) {
		for item, err := range adm.scan(ctx, pricePrefix, roots, true) {
			if err != nil {
				yield(StoredModel{}, failure("StoredModels", err))
				return
			}
			stored, err := decodePriceRows(item)
			m := StoredModel{store.KeyOf(item).PK[len(pricePrefix):], stored.info(), stored.prices()}
			if !yield(m, failure("StoredModels", err)) || err != nil {
				return
			}
		}
	}
}

// storedPrices are the stored prices of models, and of those whose prices hold for them too.
func (adm *administration) storedPrices(ctx context.Context, models []string) (priceBook, error) {
	var keys []store.Key
	asked := map[string]bool{}
	for _, model := range models {
		for _, name := range priceNames(model) {
			if !asked[name] {
				asked[name], keys = true, append(keys, priceKey(name))
			}
		}
	}
	items, err := adm.store.BatchGet(ctx, adm.store.Control, keys...)
	if err != nil {
		return nil, err
	}
	book := priceBook{}
	for _, item := range items {
		rows, err := decodePrices(item)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			book[row.Model] = append(book[row.Model], row)
		}
	}
	return book, nil
}

// maxPrices bounds the stored prices of a model: their event has those before and after.
const maxPrices = 500

// PutPrices replaces the stored prices of one model, at most 500, for all organisations; a
// version of a model is a model of its own. They come before Options.Prices and the
// catalog. No rows: back to those. It writes an AuditEvent of PriceTarget(model), unless
// just those prices are stored already.
func (k *Keeper) PutPrices(ctx context.Context, model string, rows ...Price) error {
	by, err := k.author(ctx)
	if err != nil {
		return err
	}
	return k.admin.putPrices(ctx, by, model, rows...)
}

func (adm *administration) putPrices(ctx context.Context, by, model string, rows ...Price) error {
	name, _ := splitModel(model)
	if name == "" {
		return invalidConfig("model", "%q is not a model id", model)
	}
	if len(rows) > maxPrices {
		return invalidConfig("prices", "%d prices are more than %d for one model", len(rows), maxPrices)
	}
	next := make([]Price, 0, len(rows))
	for _, p := range rows {
		if err := p.validate(); err != nil {
			return err
		}
		if p.List != "" && !namePattern.MatchString(p.List) {
			return invalidConfig("list", "%q is not the name of a price list; leave it empty for a price put by hand", p.List)
		}
		if p = p.normal(); p.Model != name {
			return invalidConfig("model", "a row for %q among those of %q", p.Model, name)
		}
		next = append(next, p)
	}
	err := adm.commit(ctx, func() (*change, error) {
		return adm.decidePrices(ctx, by, name, func(r priceRows) priceRows { return r.with(next) })
	})
	adm.tenants.evictAll()
	return adminError("PutPrices", err)
}

// with is the item with other prices.
func (r priceRows) with(prices []Price) priceRows {
	r.Rows = make([]priceRow, len(prices))
	for i, p := range prices {
		r.Rows[i] = newPriceRow(p)
	}
	return r
}

// decidePrices is the change of what is stored of a model; nil if it is the same.
func (adm *administration) decidePrices(ctx context.Context, by, name string, next func(priceRows) priceRows) (*change, error) {
	key := priceKey(name)
	seen, err := adm.store.Get(ctx, adm.store.Control, key)
	if err != nil {
		return nil, err
	}
	last, err := decodePriceRows(seen)
	if err != nil {
		return nil, err
	}
	becomes := next(last)
	e := AuditEvent{Principal: by, Action: actionPricesSet, Target: PriceTarget(name)}
	event, err := adm.trail.event(adm.now(), e, priceFields(last), priceFields(becomes))
	if err != nil || len(event.Changes) == 0 {
		return nil, err
	}
	item, err := attributevalue.MarshalMap(becomes)
	if err != nil {
		return nil, err
	}
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	return &change{[]types.TransactWriteItem{adm.putAsSeen(item, seen, priceAttributes...)}, event}, nil
}
