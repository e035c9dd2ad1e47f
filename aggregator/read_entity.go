package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// readHours returns an entity's usage of the query's resource, one piece for each hour that begins between two
// instants. The current hour comes last, and includes the growth of the bucket's counters since the last
// snapshot.
func (s *usageSource) readHours(ctx context.Context, a ask, from, to time.Time) list[piece] {
	first, after := s.calendar.Hours(from, to)
	h := hours{source: s, ask: a, first: first, after: after, ends: usage.Ends{}}
	h.pending = !a.openHour().Before(first) && a.openHour().Before(after)
	if !first.Before(after) {
		return listOf[piece]()
	}
	return func(yield func(piece, error) bool) {
		more := true
		err := forEach(h.storedSnapshots(ctx), func(p piece) bool {
			more = yield(p, nil)
			return more
		})
		if err == nil && more && h.pending {
			err = h.addPending(ctx)
		}
		switch {
		case !more:
		case err != nil:
			yield(piece{}, err)
		case h.now.sum.Net != nil:
			yield(h.now, nil)
		}
	}
}

// hours are those of an entity and a resource that are being read.
type hours struct {
	source *usageSource
	ask
	// first is the first of them, and after the first one after them.
	first, after time.Time
	// pending means that the current hour is one of them. It is kept in now, until the missing part
	// of its snapshots is known.
	pending bool
	now     piece
	// ends are the counters as the snapshots hold them.
	ends usage.Ends
}

// storedSnapshots lists a piece for each stored hour, except the current one, which it keeps in h.now. While
// the list is read, it adds the last values of all counters to h.ends.
func (h *hours) storedSnapshots(ctx context.Context) list[piece] {
	last := h.after.Add(-time.Hour)
	if h.pending { // the newest counters may be in a later hour, by DynamoDB's clock
		last = last.Add(time.Hour)
	}
	items := h.source.table.Items(ctx, keyRange(opUsage, h.Partition(h.source.keys), h.Key(h.source.keys, h.first), h.Key(h.source.keys, last)))
	return func(yield func(piece, error) bool) {
		for p, err := range convertList(ownUsage(items), h.decodeSnapshot) {
			switch {
			case err != nil:
			case h.pending && p.start.Equal(h.openHour()):
				h.now = p
				continue
			case !p.start.Before(h.after):
				continue
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

// ownUsage returns the list without the items that other tools wrote.
func ownUsage(items list[schema.Item]) list[schema.Item] {
	return func(yield func(schema.Item, error) bool) {
		for item, err := range items {
			if err == nil && schema.OthersUsage(item) {
				continue
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// decodeSnapshot decodes a snapshot as a piece, and records its counters in h.ends.
func (h *hours) decodeSnapshot(item schema.Item) (piece, error) {
	p, u, err := pieceOfSnapshot(h.ask, item)
	h.ends.AddSnapshot(u)
	return p, err
}

// pieceOfSnapshot decodes a snapshot and returns it also as a piece of usage. The piece is open unless a Closer
// has closed the snapshot.
func pieceOfSnapshot(a ask, item schema.Item) (piece, schema.UsageSnapshot, error) {
	u, err := schema.DecodeUsage(item)
	p := piece{start: u.Hour, sum: usage.NewTally()}
	if err != nil {
		return p, u, err
	}
	usage.AddSnapshot(&p.sum, &u)
	p.place, p.placed = schema.ClosedPlace(item)
	p.open = !p.placed
	p.sum.Final = usage.IsFinal(schema.UsageHourly, u.Hour, a.now)
	p.sum.Entities = 1
	return p, u, nil
}

// addPending reads the bucket and adds the growth of its counters since the last snapshot to the current
// hour.
func (h *hours) addPending(ctx context.Context) error {
	item, err := h.source.table.Get(ctx, "read the bucket", h.source.keys.Bucket(h.ID, h.Resource))
	if err != nil {
		return err
	}
	return h.addCounters(ctx, item)
}

// addCounters adds the growth of the bucket's counters since the last snapshot to h.now, and to its pending
// amounts. It first searches earlier snapshots for counters unknown to h.ends. A nil bucket adds nothing.
func (h *hours) addCounters(ctx context.Context, bucket schema.Item) error {
	b, err := usage.DecodeBucket(bucket)
	if err == nil {
		err = h.lookBack(ctx, b.Counters)
	}
	pending, unseen := usage.Pending(b, h.ends)
	if err != nil || len(pending)+len(unseen) == 0 {
		return err
	}
	if h.now.sum.Net == nil {
		h.now = piece{start: h.openHour(), sum: usage.NewTally(), open: true}
		h.now.sum.Entities = 1
	}
	usage.AddCounts(h.now.sum.Net, pending)
	usage.AddCounts(h.now.sum.Unseen, unseen)
	h.now.pending = pending
	return nil
}

// mostBack is the most snapshots searched for an earlier value of a counter.
const mostBack = 100

// lookBack reads snapshots before h.first, latest first, until h.ends has a value of each counter. After 100
// snapshots it sets the missing ones in h.ends to their present values, so that they add nothing.
func (h *hours) lookBack(ctx context.Context, counters map[string]int64) error {
	if len(usage.UnknownCounters(counters, h.ends)) == 0 {
		return nil
	}
	q := keyRange(opUsage, h.Partition(h.source.keys), schema.Key{SK: h.Prefix()}, h.Key(h.source.keys, h.first.Add(-time.Hour)))
	q.Newest = true
	read, known := 0, false
	err := forEach(convertList(ownUsage(h.source.table.Items(ctx, q)), schema.DecodeUsage), func(u schema.UsageSnapshot) bool {
		h.ends.AddSnapshot(u)
		read++
		known = len(usage.UnknownCounters(counters, h.ends)) == 0
		return !known && read < mostBack
	})
	if read == mostBack { // an unused counter of that age is not pending
		for _, name := range usage.UnknownCounters(counters, h.ends) {
			h.ends[name] = usage.End{Last: counters[name]}
		}
	}
	return err
}

// openHourOf returns a reader of the current hour of an entity and a resource, which has read nothing yet. The
// series of the query in a is replaced by that pair.
func (s *usageSource) openHourOf(a *ask, of pair) *hours {
	one := *a
	one.UsageSeries = schema.UsageSeries{Kind: schema.UsageOfEntity, ID: of.entity, Resource: of.resource, Window: schema.UsageHourly}
	return &hours{source: s, ask: one, first: a.openHour(), after: a.openHour().Add(time.Hour), pending: true, ends: usage.Ends{}}
}
