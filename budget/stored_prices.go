package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/dynalimit/dynalimit/budget/internal/store"
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
}

func decodePrices(item store.Item) ([]Price, error) {
	var stored struct {
		Rows []priceRow `dynamodbav:"rows"`
	}
	if err := attributevalue.UnmarshalMap(item, &stored); err != nil {
		return nil, fmt.Errorf("%w: prices: %w", store.ErrMalformed, err)
	}
	rows := make([]Price, len(stored.Rows))
	for i, r := range stored.Rows {
		rows[i] = Price{Model: r.Model, Scope: r.Scope, Rates: Rates{
			Input: r.Input, Output: r.Output, CacheRead: r.CacheRead, CacheWrite5m: r.CacheWrite5m, CacheWrite1h: r.CacheWrite1h,
		}}
		if r.EffectiveFrom != 0 {
			rows[i].EffectiveFrom = time.Unix(r.EffectiveFrom, 0)
		}
	}
	return rows, nil
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

// PutPrices replaces the stored prices of one model, for all organisations; a
// version of a model is a model of its own. They come before Options.Prices and the catalog. No rows: back to those.
func (k *Keeper) PutPrices(ctx context.Context, model string, rows ...Price) error {
	if err := k.usable(ctx); err != nil {
		return err
	}
	return k.admin.putPrices(ctx, model, rows...)
}

func (adm *administration) putPrices(ctx context.Context, model string, rows ...Price) error {
	name, _ := splitModel(model)
	if name == "" {
		return invalidConfig("model", "%q is not a model id", model)
	}
	stored := struct {
		Rows []priceRow `dynamodbav:"rows"`
	}{Rows: []priceRow{}}
	for _, p := range rows {
		if err := p.validate(); err != nil {
			return err
		}
		if p = p.normal(); p.Model != name {
			return invalidConfig("model", "a row for %q among those of %q", p.Model, name)
		}
		r := priceRow{
			Model: p.Model, Scope: p.Scope, Input: p.Input, Output: p.Output,
			CacheRead: p.CacheRead, CacheWrite5m: p.CacheWrite5m, CacheWrite1h: p.CacheWrite1h,
		}
		if !p.EffectiveFrom.IsZero() {
			r.EffectiveFrom = p.EffectiveFrom.Unix()
		}
		stored.Rows = append(stored.Rows, r)
	}
	item, err := attributevalue.MarshalMap(stored)
	if err != nil {
		return err
	}
	key := priceKey(name)
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	err = store.Retry(ctx, func() error { return adm.store.Put(ctx, adm.store.Control, item, "", nil, nil) })
	adm.tenants.evictAll()
	return failure("PutPrices", err)
}
