package prefetch

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Stock is what one process debited of one bucket and has not admitted yet. It is
// not safe for concurrent use.
type Stock struct {
	// horizon is how old, in ms, what is held may become.
	horizon int64
	// parcels are what is held, by the write that debited it, oldest first.
	parcels []parcel
	// held are the sums of the parcels, in name order.
	held []plan.Signed
	// lapsed is what became too old and is on the counter still.
	lapsed []plan.Signed
	// demand is what calls need.
	demand demand
}

// parcel is what is left of the tokens that one write debited ahead.
type parcel struct {
	sent int64 // when it was sent
	left []plan.Signed
}

// New returns an empty stock whose tokens may become horizon ms old.
func New(horizon int64) *Stock { return &Stock{horizon: horizon} }

// Add holds what a write that was sent at an instant has debited.
func (s *Stock) Add(amounts []plan.Signed, sent int64) {
	i := len(s.parcels)
	for i > 0 && s.parcels[i-1].sent > sent {
		i--
	}
	if i == 0 || s.parcels[i-1].sent < sent {
		s.parcels = slices.Insert(s.parcels, i, parcel{sent: sent, left: make([]plan.Signed, 0, len(amounts))})
		i++
	}
	for _, a := range amounts {
		*at(&s.held, a.Name) += a.Amount
		*at(&s.parcels[i-1].left, a.Name) += a.Amount
	}
}

// Serve takes amounts for a call at now, all or nothing, the oldest first. sent is
// how old the oldest of them is: to put them back with.
func (s *Stock) Serve(asked []plan.Signed, now int64) (sent int64, ok bool) {
	s.Expire(now)
	for i := range asked {
		if of(s.held, asked[i].Name) < asked[i].Amount {
			return 0, false
		}
	}
	sent = s.parcels[0].sent
	for i := range asked {
		*at(&s.held, asked[i].Name) -= asked[i].Amount
		s.take(asked[i].Name, asked[i].Amount)
	}
	s.dropEmpty()
	return sent, true
}

// take takes an amount of a limit from the parcels, which hold it.
func (s *Stock) take(name string, amount int64) {
	for i := range s.parcels {
		if amount == 0 {
			return
		}
		for j := range s.parcels[i].left {
			if l := &s.parcels[i].left[j]; l.Name == name {
				part := min(amount, l.Amount)
				l.Amount, amount = l.Amount-part, amount-part
			}
		}
	}
}

// dropEmpty forgets parcels at the front of which nothing is left.
func (s *Stock) dropEmpty() {
	empty := 0
	for empty < len(s.parcels) && !positive(s.parcels[empty].left) {
		empty++
	}
	if empty > 0 {
		s.parcels = slices.Delete(s.parcels, 0, empty)
	}
}

// Expire lets lapse at now what has become too old.
func (s *Stock) Expire(now int64) {
	for len(s.parcels) > 0 && now-s.parcels[0].sent > s.horizon {
		s.expire(s.parcels[0].left)
		s.parcels = slices.Delete(s.parcels, 0, 1)
	}
}

// Lapse has amounts that are not held any more taken off the counter.
func (s *Stock) Lapse(amounts []plan.Signed) {
	for _, a := range amounts {
		*at(&s.lapsed, a.Name) += a.Amount
	}
}

// LapseAll lets lapse everything that is held.
func (s *Stock) LapseAll() {
	for _, p := range s.parcels {
		s.expire(p.left)
	}
	s.parcels = s.parcels[:0]
}

func (s *Stock) expire(amounts []plan.Signed) {
	for _, a := range amounts {
		*at(&s.held, a.Name) -= a.Amount
		if a.Amount > 0 {
			*at(&s.lapsed, a.Name) += a.Amount
		}
	}
}

// Lose forgets everything, the counter's part too: the bucket is gone.
func (s *Stock) Lose() {
	s.parcels, s.held, s.lapsed = nil, nil, nil
}

// TakeLapsed returns what is to be taken off the counter, above 0 in name order,
// and forgets it.
func (s *Stock) TakeLapsed() []plan.Signed {
	lapsed := s.lapsed
	s.lapsed = nil
	return lapsed
}

// Holds reports whether anything is held, or to be taken off the counter.
func (s *Stock) Holds() bool { return len(s.parcels) > 0 || len(s.lapsed) > 0 }

// HasLapsed reports whether anything is to be taken off the counter.
func (s *Stock) HasLapsed() bool { return len(s.lapsed) > 0 }

// Held is what is held of a limit, in millitokens.
func (s *Stock) Held(name string) int64 { return of(s.held, name) }

// Ends is when the oldest of what is held lapses; false if nothing is held.
func (s *Stock) Ends() (at int64, ok bool) {
	if len(s.parcels) == 0 {
		return 0, false
	}
	return s.parcels[0].sent + s.horizon, true
}

func positive(amounts []plan.Signed) bool {
	return slices.ContainsFunc(amounts, func(a plan.Signed) bool { return a.Amount > 0 })
}

// of is a limit's amount, 0 if it is not listed.
func of(list []plan.Signed, name string) int64 {
	for i := range list {
		if list[i].Name == name {
			return list[i].Amount
		}
	}
	return 0
}

// at is the place of a limit's amount, made if need be in name order.
func at(list *[]plan.Signed, name string) *int64 {
	i := 0
	for ; i < len(*list) && (*list)[i].Name <= name; i++ {
		if (*list)[i].Name == name {
			return &(*list)[i].Amount
		}
	}
	*list = slices.Insert(*list, i, plan.Signed{Name: name})
	return &(*list)[i].Amount
}
