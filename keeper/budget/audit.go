package budget

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// isSharedTarget reports whether an audit target is a model's prices, a provisioning key or the table's
// settings. It is false for an organisation.
func isSharedTarget(target string) bool {
	for _, prefix := range []string{audit.Price(""), audit.Key("")} {
		if name, ok := strings.CutPrefix(target, prefix); ok && name != "" {
			return true
		}
	}
	return target == audit.Settings
}

// priceTarget returns the audit target of a model's prices. It ignores a prefix of the model's
// id, such as us.
func priceTarget(model string) string {
	name, _ := prices.SplitModel(model)
	return audit.Price(name)
}

// errEnough ends a query when the caller stops reading.
var errEnough = errors.New("enough")

// queryEvents returns an iterator over the audit events of a target, oldest first, of the instant from or later
// and before to. A zero instant means no bound. An error is the last element.
func (k *desk) queryEvents(ctx context.Context, target string, from, to time.Time) iter.Seq2[audit.Event, error] {
	first, last := trail.SortPrefix, trail.SortPrefix+"~"
	if !from.IsZero() {
		first += trail.FirstID(from)
	}
	if !to.IsZero() {
		last = trail.SortPrefix + trail.FirstID(to)
	}
	return func(yield func(audit.Event, error) bool) {
		if first >= last {
			return
		}
		err := k.store.Query(ctx, k.store.Control, k.layout.Partition(target), first, last, func(item store.Item) error {
			if !yield(trail.Decode(item), nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(audit.Event{}, wrapFailure("Audit", err))
		}
	}
}
