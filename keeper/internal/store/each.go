package store

import (
	"context"
	"iter"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// Each calls f for each element, up to eight calls at a time, waits for all of them, and returns the first
// error. After an error the context of the other calls ends, but remaining elements are still passed to f.
func Each[T any](ctx context.Context, elements iter.Seq[T], f func(context.Context, T) error) error {
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(8)
	for e := range elements {
		group.Go(func() error { return f(ctx, e) })
	}
	return group.Wait()
}
