package budget

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// priceTable is the stored prices and the layers below them.
type priceTable struct {
	desk  *desk
	own   priceLayers // layers of options and catalog
	evict func()      // drops configurations with old prices from the cache
}

// priceRow is the stored form of a price.
type priceRow struct {
	Model         string       `dynamodbav:"model"`
	Scope         prices.Scope `dynamodbav:"scope,omitempty"`
	EffectiveFrom int64        `dynamodbav:"effective_from,omitempty"` // unix seconds
	storedRates
	List string `dynamodbav:"list,omitempty"`
}

// storedRates is the form of Rates in items and events.
type storedRates struct {
	Input        int64 `dynamodbav:"input" json:"input"`
	Output       int64 `dynamodbav:"output" json:"output"`
	CacheRead    int64 `dynamodbav:"cache_read,omitempty" json:"cache_read,omitempty"`
	CacheWrite5m int64 `dynamodbav:"cache_write_5m,omitempty" json:"cache_write_5m,omitempty"`
	CacheWrite1h int64 `dynamodbav:"cache_write_1h,omitempty" json:"cache_write_1h,omitempty"`
}

// newPriceRow returns the stored form of a price, in whole seconds. It leaves out the source and the check
// date.
func newPriceRow(p prices.Price) priceRow {
	r := priceRow{Model: p.Model, Scope: p.Scope, storedRates: storedRates(p.Rates), List: p.List}
	if !p.EffectiveFrom.IsZero() {
		r.EffectiveFrom = p.EffectiveFrom.Unix()
	}
	return r
}

// asPrice returns a stored row as a price, with its start in UTC. Source and check date, which are not stored,
// are empty.
func (r priceRow) asPrice() prices.Price {
	p := prices.Price{Model: r.Model, Scope: r.Scope, List: r.List, Rates: prices.Rates(r.storedRates)}
	if r.EffectiveFrom != 0 {
		p.EffectiveFrom = time.Unix(r.EffectiveFrom, 0).UTC()
	}
	return p
}

// priceRows is the item of a model: its prices and its ModelInfo.
type priceRows struct {
	Rows        []priceRow `dynamodbav:"rows"`
	Tier        string     `dynamodbav:"tier,omitempty"`
	Family      string     `dynamodbav:"family,omitempty"`
	Description string     `dynamodbav:"description,omitempty"`
}

// priceAttributes are the attributes of priceRows.
var priceAttributes = []string{"rows", "tier", "family", "description"}

// modelInfo returns the item's tier, family and description as a ModelInfo.
func (r priceRows) modelInfo() ModelInfo { return ModelInfo{r.Tier, r.Family, r.Description} }

// prices returns the item's rows as prices, in stored order; the result is empty, not nil, without rows.
func (r priceRows) prices() []prices.Price {
	all := make([]prices.Price, len(r.Rows))
	for i, row := range r.Rows {
		all[i] = row.asPrice()
	}
	return all
}

// decodePriceRows decodes the item with a model's prices and ModelInfo. A nil item gives the zero priceRows.
// The error matches store.ErrMalformed.
func decodePriceRows(item store.Item) (stored priceRows, err error) {
	if err := attributevalue.UnmarshalMap(item, &stored); err != nil {
		return priceRows{}, fmt.Errorf("%w: prices: %w", store.ErrMalformed, err)
	}
	return stored, nil
}

// decodePrices decodes only the prices of a model's item, in stored order. A nil item gives an empty result.
// The error matches store.ErrMalformed.
func decodePrices(item store.Item) ([]prices.Price, error) {
	stored, err := decodePriceRows(item)
	return stored.prices(), err
}

// getPrices reads the stored prices of a model id, whose scope prefix it ignores: all scopes and starts, in
// stored order. It returns nil without an error if none are stored. An empty id is a *fault.ValidationError.
func (pt *priceTable) getPrices(ctx context.Context, model string) ([]prices.Price, error) {
	name, _ := prices.SplitModel(model)
	if name == "" {
		return nil, invalidConfig("model", "%q is not a model id", model)
	}
	item, err := pt.desk.store.Get(ctx, pt.desk.store.Control, priceKey(name))
	if err != nil || item == nil {
		return nil, wrapFailure("Prices", err)
	}
	rows, err := decodePrices(item)
	return rows, wrapFailure("Prices", err)
}

// StoredModel is a model with its stored prices and ModelInfo.
type StoredModel struct {
	// Model is the model's id, without the prefix of a scope.
	Model string
	// Info is the ModelInfo of Prices.PutInfo.
	Info ModelInfo
	// Prices are the stored prices, in stored order. Empty if only Info is stored.
	Prices []prices.Price
}

// listModels returns an iterator that scans the control table for the models with stored prices or ModelInfo,
// in no order. An error, also for a malformed item, is the last element.
func (pt *priceTable) listModels(ctx context.Context) iter.Seq2[StoredModel, error] {
	return func(yield func(StoredModel, error) bool) {
		for item, err := range pt.desk.scanRoots(ctx, pricePrefix, true) {
			if err != nil {
				yield(StoredModel{}, wrapFailure("Prices.Models", err))
				return
			}
			stored, err := decodePriceRows(item)
			m := StoredModel{store.KeyOf(item).PK[len(pricePrefix):], stored.modelInfo(), stored.prices()}
			if !yield(m, wrapFailure("Prices.Models", err)) || err != nil {
				return
			}
		}
	}
}

// storedPrices reads the stored prices of models and of the related names whose prices apply to them, and
// returns them by name. A name without stored prices is missing.
func (pt *priceTable) storedPrices(ctx context.Context, models []string) (prices.Book, error) {
	var keys []store.Key
	asked := map[string]bool{}
	for _, model := range models {
		for _, name := range prices.ModelNames(model) {
			if !asked[name] {
				asked[name], keys = true, append(keys, priceKey(name))
			}
		}
	}
	items, err := pt.desk.store.BatchGet(ctx, pt.desk.store.Control, keys...)
	if err != nil {
		return nil, err
	}
	book := prices.Book{}
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

// maxPrices bounds the stored prices of a model, because an audit event contains them before
// and after a change.
const maxPrices = 500

// putPrices replaces a model's stored prices by rows, with an audit event, if check accepts the stored ones; a
// nil check accepts any. Invalid, too many or foreign rows are a *fault.ValidationError. operation names the
// caller in errors.
func (pt *priceTable) putPrices(ctx context.Context, operation, by, model string, check func(priceRows) error, rows []prices.Price) error {
	name, _ := prices.SplitModel(model)
	if name == "" {
		return invalidConfig("model", "%q is not a model id", model)
	}
	if err := checkCount(rows); err != nil {
		return err
	}
	next := make([]prices.Price, 0, len(rows))
	for _, p := range rows {
		p, err := storedForm(p)
		if err != nil {
			return err
		}
		if p.Model != name {
			return invalidConfig("model", "a row for %q among those of %q", p.Model, name)
		}
		next = append(next, p)
	}
	return pt.replacePrices(ctx, operation, by, name, func(stored priceRows) ([]prices.Price, error) {
		if check == nil {
			return next, nil
		}
		return next, check(stored)
	})
}

// checkCount returns a *fault.ValidationError if rows are more than maxPrices, else nil.
func checkCount(rows []prices.Price) error {
	if len(rows) > maxPrices {
		return invalidConfig("prices", "%d prices are more than %d for one model", len(rows), maxPrices)
	}
	return nil
}

// storedForm validates p and returns it as a later read will show it: normalized, its start in whole seconds,
// without source and check date. A bad price or list name is a *fault.ValidationError. It stores nothing.
func storedForm(p prices.Price) (prices.Price, error) {
	if err := p.Validate(); err != nil {
		return p, err
	}
	if p.List != "" && problem.CheckName(p.List) != "" {
		return p, invalidConfig("list", "%q is not the name of a price list; leave it empty for a price put by hand", p.List)
	}
	return newPriceRow(p.Normalized()).asPrice(), nil
}

// replacePrices stores the prices that next makes from a model's stored ones, with an audit event, and then
// drops all cached configurations. It repeats next if another writer was first. An error of next ends it, and
// nothing is written.
func (pt *priceTable) replacePrices(ctx context.Context, operation, by, name string, next func(priceRows) ([]prices.Price, error)) error {
	err := pt.desk.commit(ctx, func() (*change, error) {
		var refused error
		c, err := pt.decidePrices(ctx, by, name, func(r priceRows) priceRows {
			var becomes []prices.Price
			becomes, refused = next(r)
			return r.withPrices(becomes)
		})
		if refused != nil {
			return nil, refused
		}
		return c, err
	})
	pt.evict()
	return adminError(operation, err)
}

// withPrices returns a copy of r with rows in place of its prices. ModelInfo stays, and r is unchanged.
func (r priceRows) withPrices(rows []prices.Price) priceRows {
	r.Rows = make([]priceRow, len(rows))
	for i, p := range rows {
		r.Rows[i] = newPriceRow(p)
	}
	return r
}

// decidePrices reads a model's item and returns the change that stores the result of next for it, with an audit
// event by the author by. It writes nothing. The change is nil if prices and ModelInfo stay the same.
func (pt *priceTable) decidePrices(ctx context.Context, by, name string, next func(priceRows) priceRows) (*change, error) {
	key := priceKey(name)
	seen, err := pt.desk.store.Get(ctx, pt.desk.store.Control, key)
	if err != nil {
		return nil, err
	}
	last, err := decodePriceRows(seen)
	if err != nil {
		return nil, err
	}
	becomes := next(last)
	e := audit.Event{Principal: by, Action: actionPricesSet, Target: priceTarget(name)}
	event, err := pt.desk.newEvent(pt.desk.now(), e, priceFields(last), priceFields(becomes))
	if err != nil || len(event.Changes) == 0 {
		return nil, err
	}
	item, err := attributevalue.MarshalMap(becomes)
	if err != nil {
		return nil, err
	}
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	return &change{[]types.TransactWriteItem{pt.desk.newPutIfUnchanged(item, seen, priceAttributes...)}, event}, nil
}

// priceText is the form of a price in events. The model's name is missing, because it is the
// event's target.
type priceText struct {
	Scope         prices.Scope `json:"scope,omitempty"`
	EffectiveFrom string       `json:"effective_from,omitempty"`
	List          string       `json:"list,omitempty"`
	storedRates
}

// priceFields returns a model's ModelInfo and prices as the fields of an audit event. Empty texts are nil, and
// without prices that field is missing.
func priceFields(stored priceRows) trail.Fields {
	f := trail.Fields{
		"tier": nilIfZero(stored.Tier), "family": nilIfZero(stored.Family), "description": nilIfZero(stored.Description),
	}
	rows := make([]priceText, len(stored.Rows))
	for i, p := range stored.prices() {
		rows[i] = priceText{Scope: p.Scope, List: p.List, storedRates: storedRates(p.Rates)}
		if !p.EffectiveFrom.IsZero() {
			rows[i].EffectiveFrom = p.EffectiveFrom.UTC().Format(time.RFC3339)
		}
	}
	if len(rows) > 0 {
		f["prices"] = rows
	}
	return f
}
