package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/usage"
)

const (
	// lookPage is how many earlier snapshots one request looks at: as many as one unit reads.
	lookPage = 4
	// lookBack is the number of earlier snapshots searched for a limit that may have begun
	// with the hour: a limit in none of them counts as new.
	lookBack = 24
)

// past is the state of a pair before an hour.
type past struct {
	ends usage.Ends
	// place is where its entity stood; nil where that is not known.
	place *schema.UsagePlace
}

// lookBack reads snapshots of the pair before h into p, latest first, until p has the last values of h's
// counters and the entity's place. With known, the place is not needed. After 24 snapshots it no longer
// searches for counters that may have begun in h.
func (p *past) lookBack(ctx context.Context, store *usageStore, h hourly, known bool) error {
	enough := func(all bool) bool {
		return (known || p.place != nil) && p.ends.HasAll(h.snapshot, all)
	}
	if enough(true) {
		return nil
	}
	return table.RetryThrottled(ctx, func() error {
		looked := 0
		for item, err := range store.table.Items(ctx, h.earlierSnapshots(store.keys)) {
			if err == nil {
				p.addSnapshot(item)
			}
			if looked++; err != nil || enough(looked < lookBack) {
				return err
			}
		}
		return nil
	})
}

// addSnapshot adds the last values of an earlier snapshot's counters to p.ends. It sets p.place from a closed
// one unless it is set, and ignores items that cannot be decoded.
func (p *past) addSnapshot(item schema.Item) {
	u, err := schema.DecodeUsage(item)
	if err != nil || schema.OthersUsage(item) {
		return // the closing reports unreadable items
	}
	p.ends.AddSnapshot(u)
	if stood, closed := schema.ClosedPlace(item); closed && p.place == nil {
		p.place = &stood
	}
}

// earlierSnapshots returns the query of the pair's snapshots before h, the latest first.
func (h *hourly) earlierSnapshots(keys schema.Keys) table.Query {
	series := schema.UsageSeries{Kind: schema.UsageOfEntity, ID: h.entity, Resource: h.resource, Window: schema.UsageHourly}
	q := keyRange(opClose, h.key.PK, schema.Key{SK: series.Prefix()}, series.Key(keys, h.hour.Add(-time.Hour)))
	q.Newest, q.Page = true, lookPage
	return q
}

// hourGaps returns the gaps of a snapshot's limits: those within the hour, and those in breaks, between it and
// the snapshots before. A gap within the hour and an equal excess in breaks are both left out, because clocks
// that stamp records may go back.
func hourGaps(namespace string, h hourly, breaks []usage.Break) (all []Gap) {
	gap := Gap{Namespace: namespace, Entity: h.entity, Resource: h.resource, Hour: h.hour}
	between := map[string]int64{}
	for _, b := range breaks {
		if !schema.IsLimit(b.Limit) {
			continue
		}
		g := gap
		g.Limit, g.Kind, g.Missing, g.Unseen, g.Since = b.Limit, GapKind(b.Kind), b.Missing, b.Unseen, b.Since
		within := h.snapshot.Spans[b.Limit].Missing
		if b.Kind == usage.Between && b.Unseen == 0 && b.Missing == -within {
			between[b.Limit] = b.Missing
			continue
		}
		all = append(all, g)
	}
	for name, s := range h.snapshot.Spans {
		if schema.IsLimit(name) && (s.Missing+between[name] != 0 || s.Unseen != 0) {
			g := gap
			g.Limit, g.Missing, g.Unseen = name, s.Missing, s.Unseen
			all = append(all, g)
		}
	}
	return all
}
