package budget

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// listedItem is what a price list said of a model the last time, so that it is missed.
type listedItem struct {
	Any      uint8 `dynamodbav:"any,omitempty"`
	Regional uint8 `dynamodbav:"regional,omitempty"`
	Global   uint8 `dynamodbav:"global,omitempty"`
}

func (i listedItem) had() had {
	h := had{}
	for scope, classes := range map[PriceScope]uint8{AnyScope: i.Any, Regional: i.Regional, Global: i.Global} {
		if classes != 0 {
			h[scope] = classes
		}
	}
	return h
}

// listedBefore is what a list said the last time, by model.
func (adm *administration) listedBefore(ctx context.Context, list string) (map[string]had, error) {
	all := map[string]had{}
	err := adm.store.Query(ctx, adm.store.Control, priceListPK(list), listedPrefix, listedEnd, func(item store.Item) error {
		var listed listedItem
		if err := attributevalue.UnmarshalMap(item, &listed); err != nil {
			return fmt.Errorf("%w: price list: %w", store.ErrMalformed, err)
		}
		all[strings.TrimPrefix(store.KeyOf(item).SK, listedPrefix)] = listed.had()
		return nil
	})
	return all, err
}

// noteListed stores what a list says of a model, or that it says nothing and nobody
// misses it.
func (adm *administration) noteListed(ctx context.Context, list, model string, h had) error {
	key := store.Key{PK: priceListPK(list), SK: listedPrefix + model}
	if len(h) == 0 {
		return adm.store.Delete(ctx, adm.store.Control, key)
	}
	item, err := attributevalue.MarshalMap(listedItem{h[AnyScope], h[Regional], h[Global]})
	if err != nil {
		return err
	}
	item["PK"], item["SK"] = store.String(key.PK), store.String(key.SK)
	return store.Retry(ctx, func() error { return adm.store.Put(ctx, adm.store.Control, item, "", nil, nil) })
}
