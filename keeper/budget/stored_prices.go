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

// priceTable is the prices that are stored, and those that come after them.
type priceTable struct {
	desk  *desk
	own   priceLayers // options and catalog
	evict func()      // forgets what was priced by what was stored
}

// priceRow is a stored price.
type priceRow struct {
	Model         string       `dynamodbav:"model"`
	Scope         prices.Scope `dynamodbav:"scope,omitempty"`
	EffectiveFrom int64        `dynamodbav:"effective_from,omitempty"` // unix seconds
	storedRates
	List string `dynamodbav:"list,omitempty"`
}

// storedRates are Rates as items and events have them.
type storedRates struct {
	Input        int64 `dynamodbav:"input" json:"input"`
	Output       int64 `dynamodbav:"output" json:"output"`
	CacheRead    int64 `dynamodbav:"cache_read,omitempty" json:"cache_read,omitempty"`
	CacheWrite5m int64 `dynamodbav:"cache_write_5m,omitempty" json:"cache_write_5m,omitempty"`
	CacheWrite1h int64 `dynamodbav:"cache_write_1h,omitempty" json:"cache_write_1h,omitempty"`
}

// newPriceRow is a price as it is stored.
func newPriceRow(p prices.Price) priceRow {
	r := priceRow{Model: p.Model, Scope: p.Scope, storedRates: storedRates(p.Rates), List: p.List}
	if !p.EffectiveFrom.IsZero() {
		r.EffectiveFrom = p.EffectiveFrom.Unix()
	}
	return r
}

// price is the inverse of newPriceRow.
func (r priceRow) price() prices.Price {
	p := prices.Price{Model: r.Model, Scope: r.Scope, List: r.List, Rates: prices.Rates(r.storedRates)}
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

func (r priceRows) prices() []prices.Price {
	all := make([]prices.Price, len(r.Rows))
	for i, row := range r.Rows {
		all[i] = row.price()
	}
	return all
}

func decodePriceRows(item store.Item) (stored priceRows, err error) {
	if err := attributevalue.UnmarshalMap(item, &stored); err != nil {
		return priceRows{}, fmt.Errorf("%w: prices: %w", store.ErrMalformed, err)
	}
	return stored, nil
}

func decodePrices(item store.Item) ([]prices.Price, error) {
	stored, err := decodePriceRows(item)
	return stored.prices(), err
}

func (pt *priceTable) get(ctx context.Context, model string) ([]prices.Price, error) {
	name, _ := prices.SplitModel(model)
	if name == "" {
		return nil, invalidConfig("model", "%q is not a model id", model)
	}
	item, err := pt.desk.store.Get(ctx, pt.desk.store.Control, priceKey(name))
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
	// Info is what Prices.PutInfo stored.
	Info ModelInfo
	// Prices are the stored ones, in the order they were put; none where only Info is.
	Prices []prices.Price
}

func (pt *priceTable) models(ctx context.Context) iter.Seq2[StoredModel, error] {
	return func(yield func(StoredModel, error) bool) {
		for item, err := range pt.desk.scanRoots(ctx, pricePrefix, true) {
			if err != nil {
				yield(StoredModel{}, failure("Prices.Models", err))
				return
			}
			stored, err := decodePriceRows(item)
			m := StoredModel{store.KeyOf(item).PK[len(pricePrefix):], stored.info(), stored.prices()}
			if !yield(m, failure("Prices.Models", err)) || err != nil {
				return
			}
		}
	}
}

// storedPrices are the stored prices of models, and of those whose prices hold for them too.
func (pt *priceTable) stored(ctx context.Context, models []string) (prices.Book, error) {
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

// maxPrices bounds the stored prices of a model: their event has those before and after.
const maxPrices = 500

// put replaces the prices of a model, if check accepts those that are stored; nil accepts any.
func (pt *priceTable) put(ctx context.Context, operation, by, model string, check func(priceRows) error, rows []prices.Price) error {
	name, _ := prices.SplitModel(model)
	if name == "" {
		return invalidConfig("model", "%q is not a model id", model)
	}
	if err := checkCount(rows); err != nil {
		return err
	}
	next := make([]prices.Price, 0, len(rows))
	for _, p := range rows {
		p, err := storable(p)
		if err != nil {
			return err
		}
		if p.Model != name {
			return invalidConfig("model", "a row for %q among those of %q", p.Model, name)
		}
		next = append(next, p)
	}
	return pt.replace(ctx, operation, by, name, func(stored priceRows) ([]prices.Price, error) {
		if check == nil {
			return next, nil
		}
		return next, check(stored)
	})
}

func checkCount(rows []prices.Price) error {
	if len(rows) > maxPrices {
		return invalidConfig("prices", "%d prices are more than %d for one model", len(rows), maxPrices)
	}
	return nil
}

// storable is a price as it is stored, or why it cannot be.
func storable(p prices.Price) (prices.Price, error) {
	if err := p.Validate(); err != nil {
		return p, err
	}
	if p.List != "" && problem.CheckName(p.List) != "" {
		return p, invalidConfig("list", "%q is not the name of a price list; leave it empty for a price put by hand", p.List)
	}
	return newPriceRow(p.Normalized()).price(), nil
}

// replace stores other prices of a model in the place of those that are stored.
func (pt *priceTable) replace(ctx context.Context, operation, by, name string, next func(priceRows) ([]prices.Price, error)) error {
	err := pt.desk.commit(ctx, func() (*change, error) {
		var refused error
		c, err := pt.decide(ctx, by, name, func(r priceRows) priceRows {
			var becomes []prices.Price
			becomes, refused = next(r)
			return r.with(becomes)
		})
		if refused != nil {
			return nil, refused
		}
		return c, err
	})
	pt.evict()
	return adminError(operation, err)
}

// with is the item with other prices.
func (r priceRows) with(rows []prices.Price) priceRows {
	r.Rows = make([]priceRow, len(rows))
	for i, p := range rows {
		r.Rows[i] = newPriceRow(p)
	}
	return r
}

// decidePrices is the change of what is stored of a model; nil if it is the same.
func (pt *priceTable) decide(ctx context.Context, by, name string, next func(priceRows) priceRows) (*change, error) {
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
	event, err := pt.desk.event(pt.desk.now(), e, priceFields(last), priceFields(becomes))
	if err != nil || len(event.Changes) == 0 {
		return nil, err
	}
	item, err := attributevalue.MarshalMap(becomes)
	if err != nil {
		return nil, err
	}
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	return &change{[]types.TransactWriteItem{pt.desk.putAsSeen(item, seen, priceAttributes...)}, event}, nil
}

// priceText is a price as events tell it, without the model's name: that is the target.
type priceText struct {
	Scope         prices.Scope `json:"scope,omitempty"`
	EffectiveFrom string       `json:"effective_from,omitempty"`
	List          string       `json:"list,omitempty"`
	storedRates
}

// priceFields are what is stored of a model: its prices, and what is said of it.
func priceFields(stored priceRows) trail.Fields {
	f := trail.Fields{
		"tier": present(stored.Tier), "family": present(stored.Family), "description": present(stored.Description),
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
