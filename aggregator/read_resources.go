package aggregator

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// resources are those that a query may find usage of, in the order of their names.
func (r *Reader) resources(ctx context.Context, a ask) list[string] {
	if a.Resource != "" {
		return values(a.Resource)
	}
	partition := a.Partition(r.keys)
	all := []list[string]{r.skim(ctx, partition, a.Prefix())}
	for _, w := range a.storedWindows() {
		s := a.UsageSeries
		s.Window = w
		all = append(all, r.skim(ctx, partition, s.Prefix()))
	}
	if a.Kind == schema.UsageOfEntity {
		if a.asksOpen() {
			all = append(all, r.bucketsOf(ctx, a.ID))
		}
	} else {
		all = append(all, values(slices.Sorted(maps.Keys(a.live))...))
	}
	return distinct(merged(strings.Compare, all...))
}

func values[T any](of ...T) list[T] {
	return func(yield func(T, error) bool) { table.YieldAll(of, yield) }
}

// distinct are the names of a list once each; they are not empty.
func distinct(names list[string]) list[string] {
	return func(yield func(string, error) bool) {
		before := ""
		for name, err := range names {
			if err == nil && name == before {
				continue
			}
			if before = name; !yield(name, err) {
				return
			}
		}
	}
}

// skim are the resources whose items have a prefix: one request each skips to the next, over
// all times of the one before.
func (r *Reader) skim(ctx context.Context, partition, prefix string) list[string] {
	return func(yield func(string, error) bool) {
		for from := prefix; ; {
			found := ""
			q := table.Query{Op: opUsage, Hash: schema.PK, Value: partition, From: from, To: prefix + "~", Page: 1}
			err := each(r.table.Items(ctx, q), func(item schema.Item) bool {
				found, _, _ = strings.Cut(strings.TrimPrefix(schema.KeyOf(item).SK, prefix), "#")
				return false
			})
			if err == nil && found == "" || !yield(found, err) || err != nil {
				return
			}
			from = prefix + found + "$" // what follows "#"
		}
	}
}

// bucketsOf are the resources that an entity has buckets of.
func (r *Reader) bucketsOf(ctx context.Context, entity string) list[string] {
	q := table.Query{Op: "list the buckets", Hash: schema.PK, Value: r.keys.Entity(entity), Prefix: schema.BucketsOf}
	return convert(r.table.Items(ctx, q), func(item schema.Item) (string, error) {
		return strings.TrimPrefix(schema.KeyOf(item).SK, schema.BucketsOf), nil
	})
}
