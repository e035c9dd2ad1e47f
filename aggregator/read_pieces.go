package aggregator

import (
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// piece is usage in a part of one window.
type piece struct {
	start time.Time
	sum   schema.UsageSum
	// pending is its part that the stream has not delivered: the sum includes it.
	pending map[string]int64
	// place is where the entity stood; placed says that it is known.
	place  schema.UsagePlace
	placed bool
	// open says that an hour of it is not closed.
	open bool
}

// sumWindows returns the usage in windows of the query's length, as sums of pieces, each a part of a window.
// The pieces must be ordered by time; so are the windows. Windows without a piece are left out.
func (s *usageSource) sumWindows(a ask, pieces list[piece]) list[Usage] {
	return func(yield func(Usage, error) bool) {
		var sum *window
		more := true
		err := forEach(pieces, func(p piece) bool {
			if sum != nil && !p.start.Before(sum.end) {
				more, sum = sum.yieldTo(a, yield), nil
			}
			if sum == nil {
				sum = s.newWindow(a.window, p.start)
			}
			sum.addPiece(&p)
			return more
		})
		switch {
		case !more:
		case err != nil:
			yield(Usage{}, err)
		case sum != nil:
			sum.yieldTo(a, yield)
		}
	}
}

// window is one that is being summed.
type window struct {
	piece
	end  time.Time
	zone *time.Location
}

// newWindow returns an empty window of length w around the instant at, in the reader's time zone. It is final
// until a piece is added that is not.
func (s *usageSource) newWindow(w Window, at time.Time) *window {
	start := s.calendar.Floor(stored[w], at)
	sum := &window{piece: piece{start: start, sum: usage.NewTally(), pending: map[string]int64{}}, end: s.calendar.Next(stored[w], start), zone: s.calendar.Zone}
	sum.sum.Final = true
	return sum
}

// addPiece adds a piece of usage to the window. The window's number of entities is the largest of its pieces;
// its plan and parents are those of the last added piece that has some.
func (w *window) addPiece(p *piece) {
	usage.AddSum(&w.sum, &p.sum)
	usage.AddCounts(w.pending, p.pending)
	w.sum.Entities = max(w.sum.Entities, p.sum.Entities)
	w.sum.Final = w.sum.Final && p.sum.Final
	w.open = w.open || p.open
	if p.placed {
		w.place = p.place
	}
}

// yieldTo yields the window and returns false if the caller stops. It skips a window with nothing
// but failed logins, which earlier versions counted as users' entities.
func (w *window) yieldTo(a ask, yield func(Usage, error) bool) bool {
	u, former := w.toUsage(a)
	return former && len(u.Limits) == 0 || yield(u, nil)
}

// toUsage converts the window to a Usage, with limits sorted by name. It leaves out counters of failed logins,
// and then former is true.
func (w *window) toUsage(a ask) (u Usage, former bool) {
	u = Usage{
		Resource: a.Resource, Window: a.window, Start: w.start.In(w.zone), End: w.end.In(w.zone),
		Limits: []LimitUsage{}, Entities: w.sum.Entities, Open: w.open || a.now.Before(w.end), Final: w.sum.Final && !a.unsure && !a.now.Before(w.end.Add(usage.FinalAfter)),
	}
	u.Open = u.Open && !u.Final
	if a.Kind == schema.UsageOfEntity {
		u.Entity, u.Parent, u.Plan, u.Entities = a.ID, w.place.Parent, w.place.Plan, 1
	}
	names := map[string]int64{}
	for _, counts := range []map[string]int64{w.sum.Net, w.sum.Unrecorded, w.sum.Unseen, w.pending} {
		maps.Copy(names, counts)
	}
	models := usage.ByModel(w.sum.Net)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		ours := schema.FormerlyOwnLimit(a.Resource, name) && (a.Kind != schema.UsageOfEntity || schema.FormerlyOwn(a.ID, a.Resource))
		if former = former || ours; schema.IsLimit(name) && !ours {
			u.Limits = append(u.Limits, LimitUsage{
				Limit: name, Consumed: w.sum.Net[name], Passed: w.sum.Net[schema.PassedOn(name)], Pending: w.pending[name],
				Unrecorded: w.sum.Unrecorded[name], Unseen: w.sum.Unseen[name], Unit: w.sum.Units[name], ByModel: models[name],
			})
		}
	}
	return u, former
}

// mergeByStart merges lists of pieces that are sorted by start into one sorted list.
func mergeByStart(lists ...list[piece]) list[piece] {
	return mergeLists(func(a, b piece) int { return a.start.Compare(b.start) }, lists...)
}
