package prefetch

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Stock is what one process has debited from one bucket and not admitted yet. It is not
// safe for concurrent use; New makes it.
type Stock struct {
	// horizon is how old, in ms, held tokens may become.
	horizon int64
	// parcels are the held tokens, by the write that debited them, oldest first.
	parcels []parcel
	// held are the sums of the parcels, in name order.
	held []plan.Signed
	// lapsed are the tokens that became too old and are still on the counter.
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
		add(&s.held, a)
		add(&s.parcels[i-1].left, a)
	}
}

// Serve takes amounts for a call at now, all or nothing, the oldest first. sent is when
// the oldest of them was debited, so that they can be put back. What was debited as passed
// on to a level above serves only calls that pass it on, and nobody else.
func (s *Stock) Serve(asked []plan.Signed, now int64) (sent int64, ok bool) {
	s.Expire(now)
	for i := range asked {
		if !covers(s.held, i, &asked[i]) {
			return 0, false
		}
	}
	sent = s.parcels[0].sent
	for i := range asked {
		if asked[i].Amount > 0 {
			s.take(i, &asked[i])
		}
	}
	s.dropEmpty()
	return sent, true
}

// take takes what is held: of what is asked the limit at a place.
func (s *Stock) take(place int, asked *plan.Signed) {
	held := &s.held[index(s.held, asked.Name, place)]
	held.Amount, held.Passed = held.Amount-asked.Amount, held.Passed-asked.Passed
	amount := asked.Amount
	for i := 0; i < len(s.parcels) && amount > 0; i++ {
		left := s.parcels[i].left
		j := index(left, asked.Name, place)
		if j < 0 {
			continue
		}
		l := &left[j]
		part := min(amount, l.Amount)
		l.Amount, amount = l.Amount-part, amount-part
		l.Passed = min(l.Passed, l.Amount)
	}
}

// dropEmpty removes the oldest parcels that hold nothing any more.
func (s *Stock) dropEmpty() {
	empty := 0
	for empty < len(s.parcels) && !positive(s.parcels[empty].left) {
		empty++
	}
	if empty > 0 {
		s.parcels = slices.Delete(s.parcels, 0, empty)
	}
}

// Expire lets the tokens lapse that are too old at now.
func (s *Stock) Expire(now int64) {
	for len(s.parcels) > 0 && now-s.parcels[0].sent > s.horizon {
		s.expire(s.parcels[0].left)
		s.parcels = slices.Delete(s.parcels, 0, 1)
	}
}

// Lapse has amounts taken off the counter that are not held any more.
func (s *Stock) Lapse(amounts []plan.Signed) {
	for _, a := range amounts {
		add(&s.lapsed, a)
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
		sub(&s.held, a)
		if a.Amount > 0 {
			add(&s.lapsed, a)
		}
	}
}

// Lose forgets everything, also what is still on the counter, because the bucket is
// gone.
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
func (s *Stock) Held(name string) int64 { return s.heldOf(name, 0) }

// heldOf is Held of a limit that is looked for at place first.
func (s *Stock) heldOf(name string, place int) int64 {
	if i := index(s.held, name, place); i >= 0 {
		return s.held[i].Amount
	}
	return 0
}

// Ends is when the oldest held tokens lapse; false if nothing is held.
func (s *Stock) Ends() (at int64, ok bool) {
	if len(s.parcels) == 0 {
		return 0, false
	}
	return s.parcels[0].sent + s.horizon, true
}

func positive(amounts []plan.Signed) bool {
	for i := range amounts {
		if amounts[i].Amount > 0 {
			return true
		}
	}
	return false
}

// of is a limit's amount, 0 if it is not listed.
func of(list []plan.Signed, name string) int64 {
	if i := index(list, name, 0); i >= 0 {
		return list[i].Amount
	}
	return 0
}

// index is where a list has a limit, -1 for nowhere. It is looked for at place first: calls name
// the same limits again and again.
func index(list []plan.Signed, name string, place int) int {
	if place < len(list) && list[place].Name == name {
		return place
	}
	for i := range list {
		if list[i].Name == name {
			return i
		}
	}
	return -1
}

// covers reports whether a list holds what a call asks at a place, debited as the call counts it.
func covers(list []plan.Signed, place int, asked *plan.Signed) bool {
	i := index(list, asked.Name, place)
	if i < 0 {
		return asked.Amount == 0
	}
	held := &list[i]
	return held.Amount >= asked.Amount && (held.Passed == held.Amount) == (asked.Passed == asked.Amount) && (held.Passed == 0) == (asked.Passed == 0)
}

func add(list *[]plan.Signed, a plan.Signed) {
	to := at(list, a.Name)
	to.Amount, to.Passed = to.Amount+a.Amount, to.Passed+a.Passed
}

func sub(list *[]plan.Signed, a plan.Signed) {
	add(list, plan.Signed{Name: a.Name, Amount: -a.Amount, Passed: -a.Passed})
}

// at points to a limit's entry. It adds one, in name order, if there is none.
func at(list *[]plan.Signed, name string) *plan.Signed {
	i := 0
	for ; i < len(*list) && (*list)[i].Name <= name; i++ {
		if (*list)[i].Name == name {
			return &(*list)[i]
		}
	}
	*list = slices.Insert(*list, i, plan.Signed{Name: name})
	return &(*list)[i]
}
