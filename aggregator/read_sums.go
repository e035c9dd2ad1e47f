package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// between reads the usage in the windows between two moments.
type between func(from, to time.Time) list[piece]

// readPieces returns the usage of the query's one resource, in the order of time. It reads stored sums, the
// longest windows first. In gaps between them it reads shorter windows, down to hours.
func (s *usageSource) readPieces(ctx context.Context, a ask) list[piece] {
	read := func(from, to time.Time) list[piece] {
		if a.Kind == schema.UsageOfEntity {
			return s.readHours(ctx, a, from, to)
		}
		return mergeByStart(s.readSums(ctx, a, schema.UsageHourly, from, earlierOf(to, a.closed)), a.liveBetween(from, to))
	}
	for _, w := range a.storedWindows() {
		hours := read
		read = func(from, to time.Time) list[piece] {
			return s.sumsOr(a, s.readSums(ctx, a, w, from, to), w, from, to, hours)
		}
	}
	return read(a.from, a.to)
}

// readSums returns a piece for each stored sum of a window of length w that begins at or after from and before
// to.
func (s *usageSource) readSums(ctx context.Context, a ask, w schema.UsageWindow, from, to time.Time) list[piece] {
	if !from.Before(to) {
		return listOf[piece]()
	}
	of := a.UsageSeries
	of.Window = w
	q := keyRange(opUsage, of.Partition(s.keys), of.Key(s.keys, from), of.Key(s.keys, to.Add(-time.Nanosecond)))
	return convertList(s.table.Items(ctx, q), pieceOfSum)
}

// pieceOfSum decodes a stored sum as a piece of usage. The piece has a plan and parents if the sum stores them.
func pieceOfSum(item schema.Item) (piece, error) {
	sum, err := schema.DecodeUsageSum(item)
	p := piece{start: sum.Start, sum: sum}
	if sum.Place != nil {
		p.place, p.placed = *sum.Place, true
	}
	return p, err
}

// sumsOr returns the sums of windows w from one instant to another. For times without a sum it returns the
// pieces that rest reads. It also does that for an entity's sums that are not final, because the hours may
// have more.
func (s *usageSource) sumsOr(a ask, sums list[piece], w schema.UsageWindow, from, to time.Time, rest between) list[piece] {
	return func(yield func(piece, error) bool) {
		until := func(at time.Time) (more bool) {
			if !from.Before(at) {
				return true
			}
			more = true
			err := forEach(rest(from, at), func(p piece) bool {
				more = yield(p, nil)
				return more
			})
			return more && (err == nil || yield(piece{}, err) && false)
		}
		more := true
		err := forEach(sums, func(p piece) bool {
			if a.Kind == schema.UsageOfEntity && !p.sum.Final {
				return true // its hours are there, and may have more
			}
			more = until(p.start) && yield(p, nil)
			from = s.calendar.Next(w, p.start)
			return more
		})
		switch {
		case !more:
		case err != nil:
			yield(piece{}, err)
		default:
			until(to)
		}
	}
}
