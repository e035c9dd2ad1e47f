package admin

import (
	"context"
	"iter"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// listPaged lists the values that read makes of the items that an index query finds. It requests a page when
// the caller has used the one before. An error is the last element.
func listPaged[T any](ctx context.Context, t *table.Table, q table.Query, read func(found []schema.Item) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range t.Pages(ctx, q) {
			var some []T
			if err == nil {
				some, err = read(page.Items)
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if !table.YieldAll(some, yield) {
				return
			}
		}
	}
}

// keysOf returns the primary keys of items.
func keysOf(items []schema.Item) []schema.Key {
	keys := make([]schema.Key, len(items))
	for i, item := range items {
		keys[i] = schema.KeyOf(item)
	}
	return keys
}
