package aggregator

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// lookBeyond reads what totals have to know of the hours beside those that they sum: the
// levels of a call may be written in two hours.
func (k *closing) lookBeyond(ctx context.Context, sums *usage.Sums) error {
	for chunk := range slices.Chunk(sums.Beyond(), table.PageSize) {
		keys := make([]schema.Key, len(chunk))
		for i, of := range chunk {
			keys[i] = k.keys.Usage(of.Entity, of.Resource, of.Hour)
		}
		items, err := k.get(ctx, keys)
		if err != nil {
			return err
		}
		if err := k.noteBeyond(ctx, sums, chunk, items); err != nil {
			return err
		}
	}
	return nil
}

// noteBeyond gives snapshots to the sums that asked for them. What is not closed yet is where
// its entity stands now; what cannot be read is told where it is closed.
func (k *closing) noteBeyond(ctx context.Context, sums *usage.Sums, asked []usage.Beyond, items []schema.Item) error {
	var of []usage.Beyond
	var all []hourly
	for i, item := range items {
		if !k.ours(item) {
			continue
		}
		if h, err := decodeHourly(item); err == nil {
			of, all = append(of, asked[i]), append(all, h)
		}
	}
	if err := k.read(ctx, all); err != nil {
		return err
	}
	for i, h := range all {
		if !h.closed {
			h.place, _ = usage.Place(h.entity, k.record)
		}
		sums.LookBeyond(of[i], h.place, *h.snapshot)
	}
	return nil
}
