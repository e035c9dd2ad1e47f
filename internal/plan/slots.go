package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A limit of calls in flight differs from the other kinds. Calls take slots and give them back; nothing
// refills. Each write of the process moves the slots of its open calls as well (see bucket.Moves), so a
// give-back of slots has no amount of its own: the lane counts one open call less.

// InFlight are the slots of a process's open calls at the limits of one bucket.
type InFlight struct {
	// Incarnation is the bucket that has the slots. Another one has none of them.
	Incarnation []byte
	// Limits are by name, in order.
	Limits []LimitInFlight
}

// LimitInFlight are the slots of a process's open calls at one limit.
type LimitInFlight struct {
	Name string
	// Life is the life of the limit that has the slots. A later one, after a change of kind, has none of them.
	Life uint16
	bucket.Occupied
}

// occupied returns the slots of the process at a limit; none without an entry. In another bucket or life only
// the count of open calls is left.
func (f *InFlight) occupied(name string, m *schema.Image) (o bucket.Occupied) {
	if f == nil {
		return o
	}
	i := slices.IndexFunc(f.Limits, func(l LimitInFlight) bool { return l.Name == name })
	if i < 0 {
		return o
	}
	o = f.Limits[i].Occupied
	if l := m.SlotsOf(name); l == nil || l.Life != f.Limits[i].Life || string(f.Incarnation) != string(m.IncarnationID()) {
		o.Epochs, o.Doubtful = nil, nil
	}
	return o
}

// MissIn reports whether an image lacks a limit of calls in flight of the process's open calls, or has another kind.
func (f *InFlight) MissIn(m *schema.Image) bool {
	return m != nil && slices.ContainsFunc(f.Limits, func(l LimitInFlight) bool { return l.Open > 0 && m.SlotsOf(l.Name) == nil })
}

// OthersHold reports whether a limit of the bucket has more slots taken in an image than this process knows to
// hold. f may be nil, for a process without slots.
func (f *InFlight) OthersHold(m *schema.Image) bool {
	if m == nil || !m.Set.Slots {
		return false
	}
	for i, name := range m.Set.Names {
		own := f.occupied(name, m)
		if m.Limits[i].IsSlots() && bucket.SumSlots(m.Epochs(i)) > bucket.SumSlots(own.Epochs)+bucket.SumSlots(own.Doubtful) {
			return true
		}
	}
	return false
}

// LocalSlots returns the millislots that a process may give while the bucket does not answer: its share of n
// millislots, rounded down to whole slots. If that is none, a process with a seed gets one slot with the chance
// of its share.
func LocalSlots(n int64, share float64, seed uint64) int64 {
	own := float64(n) * share / 1000
	if own >= 1 {
		return int64(own) * 1000
	}
	if float64(seed>>11)/(1<<53) < own {
		return 1000
	}
	return 0
}
