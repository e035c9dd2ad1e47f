package prefetch

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// Stock is the tokens that one process has debited from one bucket and not admitted yet. It is not safe for
// concurrent use; New makes it.
type Stock struct {
	// horizon is the age in ms at which held tokens lapse.
	horizon int64
	// parcels are the held tokens, by the write that debited them, oldest first.
	parcels []parcel
	// held are the sums of the parcels, in name order.
	held []plan.Signed
	// lapsed are the tokens that became too old. They are still on the counter.
	lapsed []plan.Signed
	// demand is the recent need of calls.
	demand demand
}

// parcel is the rest of the tokens that one write debited ahead.
type parcel struct {
	sent int64 // start of the write
	left []plan.Signed
}

// New returns an empty stock with a horizon in ms.
func New(horizon int64) *Stock { return &Stock{horizon: horizon} }

// Add adds to the held tokens those that a write debited, which was sent at an instant in ms. It keeps the
// parcels in the order of their writes.
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
		addAmount(&s.held, a)
		addAmount(&s.parcels[i-1].left, a)
	}
}

// Serve takes amounts for a call at now, all or nothing, the oldest first; tokens that are too old lapse
// before. sent is the start of the oldest debit used, so that the tokens can be put back. Tokens debited as
// counted by a level above serve only calls that it counts too, and other tokens only other calls.
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
			s.takeLimit(i, &asked[i])
		}
	}
	s.dropEmpty()
	return sent, true
}

// takeLimit takes the requested amount of one limit from the parcels, the oldest first. They must hold as much.
// The argument place is the probable index of the limit in s.held and in each parcel.
func (s *Stock) takeLimit(place int, asked *plan.Signed) {
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

// dropEmpty removes the empty parcels at the beginning, the oldest ones. Empty ones between others stay.
func (s *Stock) dropEmpty() {
	empty := 0
	for empty < len(s.parcels) && !anyPositive(s.parcels[empty].left) {
		empty++
	}
	if empty > 0 {
		s.parcels = slices.Delete(s.parcels, 0, empty)
	}
}

// Expire moves the held tokens that are older than the horizon at now, in ms, to the lapsed ones.
func (s *Stock) Expire(now int64) {
	for len(s.parcels) > 0 && now-s.parcels[0].sent > s.horizon {
		s.lapseHeld(s.parcels[0].left)
		s.parcels = slices.Delete(s.parcels, 0, 1)
	}
}

// Lapse adds amounts that are not held to the lapsed tokens, which come off the counter later.
func (s *Stock) Lapse(amounts []plan.Signed) {
	for _, a := range amounts {
		addAmount(&s.lapsed, a)
	}
}

// LapseAll moves all held tokens to the lapsed ones.
func (s *Stock) LapseAll() {
	for _, p := range s.parcels {
		s.lapseHeld(p.left)
	}
	s.parcels = s.parcels[:0]
}

// lapseHeld moves amounts from the held tokens to the lapsed ones. The caller removes their parcel.
func (s *Stock) lapseHeld(amounts []plan.Signed) {
	for _, a := range amounts {
		addAmount(&s.held, plan.Signed{Name: a.Name, Amount: -a.Amount, Passed: -a.Passed})
		if a.Amount > 0 {
			addAmount(&s.lapsed, a)
		}
	}
}

// Lose empties the stock, lapsed tokens included, because the bucket is gone. The demand stays.
func (s *Stock) Lose() {
	s.parcels, s.held, s.lapsed = nil, nil, nil
}

// TakeLapsed returns and clears the lapsed tokens, in name order and above 0. The caller takes them off the
// counter.
func (s *Stock) TakeLapsed() []plan.Signed {
	lapsed := s.lapsed
	s.lapsed = nil
	return lapsed
}

// HasTokens reports whether the stock has held or lapsed tokens.
func (s *Stock) HasTokens() bool { return len(s.parcels) > 0 || len(s.lapsed) > 0 }

// HasLapsed reports whether the stock has lapsed tokens.
func (s *Stock) HasLapsed() bool { return len(s.lapsed) > 0 }

// Held returns the held tokens of a limit, in millitokens, also those that are old enough to lapse: see Expire.
func (s *Stock) Held(name string) int64 { return s.heldOf(name, 0) }

// heldOf returns the held tokens of a limit, in millitokens. The limit is probably at index place.
func (s *Stock) heldOf(name string, place int) int64 {
	if i := index(s.held, name, place); i >= 0 {
		return s.held[i].Amount
	}
	return 0
}

// LapseTime returns the instant, in ms and perhaps in the past, at which the oldest held tokens lapse; false if
// no tokens are held.
func (s *Stock) LapseTime() (at int64, ok bool) {
	if len(s.parcels) == 0 {
		return 0, false
	}
	return s.parcels[0].sent + s.horizon, true
}

// anyPositive reports whether one of the amounts is above 0.
func anyPositive(amounts []plan.Signed) bool {
	for i := range amounts {
		if amounts[i].Amount > 0 {
			return true
		}
	}
	return false
}

// amountIn returns the amount of a limit in a list, in millitokens; 0 if it is not listed.
func amountIn(list []plan.Signed, name string) int64 {
	if i := index(list, name, 0); i >= 0 {
		return list[i].Amount
	}
	return 0
}

// index returns the position of a limit in a list, or -1. It looks at place first, because calls name the
// same limits again and again.
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

// covers reports whether a list has at least a call's amount of a limit, probably at index place. If a level
// above counts all or none of the call's amount, it must count all or none of the list's too.
func covers(list []plan.Signed, place int, asked *plan.Signed) bool {
	i := index(list, asked.Name, place)
	if i < 0 {
		return asked.Amount == 0
	}
	held := &list[i]
	return held.Amount >= asked.Amount && (held.Passed == held.Amount) == (asked.Passed == asked.Amount) && (held.Passed == 0) == (asked.Passed == 0)
}

// addAmount adds an amount, with the part that a level above counts, to the entry of its limit in a list, in
// place. It makes a missing entry in name order.
func addAmount(list *[]plan.Signed, a plan.Signed) {
	to := entryOf(list, a.Name)
	to.Amount, to.Passed = to.Amount+a.Amount, to.Passed+a.Passed
}

// entryOf returns a pointer to a limit's entry in a list. It adds a new one in name order; the pointer is valid
// until the next addition.
func entryOf(list *[]plan.Signed, name string) *plan.Signed {
	i := 0
	for ; i < len(*list) && (*list)[i].Name <= name; i++ {
		if (*list)[i].Name == name {
			return &(*list)[i]
		}
	}
	*list = slices.Insert(*list, i, plan.Signed{Name: name})
	return &(*list)[i]
}
