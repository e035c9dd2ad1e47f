package lane

import (
	"cmp"
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Calls in flight. The lane counts the slots that the open calls of the process need, and the epochs in which
// the bucket has them. Every write of the lane carries the difference: it gives back the slots of calls that
// have ended, moves those that end soon, and takes again those whose hold has run out. While calls are open, a
// timer makes the lane write in time. The leases of a process are alike, so a slot belongs to none of them.

// heldSlots are the slots of a process's open calls in one bucket. Its methods take no lock and read no clock.
type heldSlots struct {
	plan.InFlight
	// more has the rest of each limit, in the order of Limits.
	more []slotLimit
	// cfg is the last configuration of a call with limits of calls in flight.
	cfg *plan.Config
}

// useConfig stores the configuration of a call. It ignores one without limits of calls in flight if another is
// stored.
func (s *heldSlots) useConfig(cfg *plan.Config) {
	if cfg.Slots || s.cfg == nil {
		s.cfg = cfg
	}
}

// slotLimit is one limit of slots.
type slotLimit struct {
	// opened counts the slots of open calls by the second in which they were taken, oldest first.
	opened []openedSlots
	// lapsed is the last second whose calls have kept their slots for too long; 0 without one.
	lapsed int64
	// late are the slots of open calls that were counted before their bucket was known, the last of them in the
	// second lateSince.
	late, lateSince int64
	// calls are the durations of the last calls, in seconds, and ended is the number of all.
	calls [meanOf]int64
	ended int
}

// meanOf is the number of calls of the mean duration.
const meanOf = 32

// openedSlots are the slots of calls that began in one second since the origin.
type openedSlots struct{ second, slots int64 }

// limit returns pointers to the two parts of a limit's slots. It inserts empty ones for a new limit; the next
// insertion makes older pointers invalid.
func (s *heldSlots) limit(name string) (*plan.LimitInFlight, *slotLimit) {
	i, known := slices.BinarySearchFunc(s.Limits, name, func(l plan.LimitInFlight, name string) int {
		switch {
		case l.Name < name:
			return -1
		case l.Name > name:
			return 1
		}
		return 0
	})
	if !known {
		s.Limits = slices.Insert(s.Limits, i, plan.LimitInFlight{Name: name})
		s.more = slices.Insert(s.more, i, slotLimit{})
	}
	return &s.Limits[i], &s.more[i]
}

// without returns a copy of the slots with fewer open ones: without the calls that adjusts end. The epochs in
// which the bucket has the slots stay.
func (s *heldSlots) without(adjusts []*Op) *plan.InFlight {
	after := plan.InFlight{Incarnation: s.Incarnation, Limits: slices.Clone(s.Limits)}
	for _, o := range adjusts {
		for _, a := range o.Amounts {
			if !a.Window.IsSlots() {
				continue
			}
			for i := range after.Limits {
				if l := &after.Limits[i]; l.Name == a.Name && !s.more[i].hasLapsed(a.Window) {
					l.Open -= min(-a.Amount, l.Open)
				}
			}
		}
	}
	return &after
}

// lacksSlots reports whether to read the bucket for the slots of open calls, because an old image does not have their
// limits. A batch with takes reads it anyway.
func lacksSlots(known *sight, b *batch, open *plan.InFlight, now int64) bool {
	return known.known && len(b.takes) == 0 && !known.fresh(now) && open.MissIn(known.image)
}

// hasLapsed reports whether the calls that began in a window have kept their slots longer than allowed, so that
// these no longer count as open. It is false for an unknown second.
func (m *slotLimit) hasLapsed(window bucket.WindowID) bool {
	second := secondOf(window)
	return second > 0 && second <= m.lapsed
}

// secondOf returns the second in which the slots of a window were taken, as secondAt counts; 0 if it is not
// known.
func secondOf(window bucket.WindowID) int64 {
	if second := -window.Ordinal(); second > unknownSecond {
		return second
	}
	return 0
}

// unknownSecond is the second of slots by an image.
const unknownSecond = 1

// addOpened adds n slots, in thousandths, of calls that begin in a second to the list by age. It does not
// change the number of open slots.
func (m *slotLimit) addOpened(n, second int64) {
	if last := len(m.opened) - 1; last >= 0 && m.opened[last].second >= second {
		m.opened[last].slots += n
		return
	}
	m.opened = append(m.opened, openedSlots{second, n})
}

// endCalls takes n slots, in thousandths, of calls that began in window off the list by age, and records their
// duration. Slots that began then or later go first. It returns how many were on the list; 0, without a change,
// for calls whose slots have lapsed.
func (m *slotLimit) endCalls(n int64, window bucket.WindowID, second int64) (ended int64) {
	if m.hasLapsed(window) {
		return 0
	}
	from, first := secondOf(window), len(m.opened)
	if from > 0 {
		first, _ = slices.BinarySearchFunc(m.opened, from, func(o openedSlots, from int64) int { return cmp.Compare(o.second, from) })
		m.calls[m.ended%meanOf] = max(0, second-from)
		m.ended++
	}
	leave := func(o *openedSlots) {
		gone := min(n-ended, o.slots)
		o.slots, ended = o.slots-gone, ended+gone
	}
	for k := first; k < len(m.opened); k++ {
		leave(&m.opened[k])
	}
	for k := first - 1; k >= 0; k-- {
		leave(&m.opened[k])
	}
	m.opened = slices.DeleteFunc(m.opened, func(o openedSlots) bool { return o.slots == 0 })
	return ended
}

// meanDuration returns the mean duration of the last 32 calls, in ms; 0 before the first has ended.
func (m *slotLimit) meanDuration() int64 {
	n := int64(min(m.ended, meanOf))
	if n == 0 {
		return 0
	}
	sum := int64(0)
	for _, d := range m.calls[:n] {
		sum += d
	}
	return max(1, sum*1000/n)
}

// Lapsed are slots of calls that kept them for the longest time.
type Lapsed struct {
	Limit string
	Slots int64
}

// lapseCalls ends at a second the calls that have kept their slots longer than the limit's longest time. It
// takes their slots off the open ones, so that no write renews them, and returns them by limit, in thousandths.
func (s *heldSlots) lapseCalls(second int64) (lapsed []Lapsed) {
	for i := range s.Limits {
		m := &s.more[i]
		n := int64(0)
		for len(m.opened) > 0 && m.opened[0].second+s.longest(s.Limits[i].Name)/1000 < second {
			n, m.lapsed = n+m.opened[0].slots, m.opened[0].second
			m.opened = m.opened[1:]
		}
		if m.lateSince <= m.lapsed {
			m.late = 0
		}
		if n > 0 {
			s.Limits[i].Lapse(n)
			lapsed = append(lapsed, Lapsed{s.Limits[i].Name, n})
		}
	}
	return lapsed
}

// usualHoldMS and usualLongestMS are the times of a limit that the configuration no longer has.
const (
	usualHoldMS    = 60_000
	usualLongestMS = 3_600_000
)

// longest returns the longest time for which a call may keep slots of a limit, in ms; an hour if the
// configuration lacks it.
func (s *heldSlots) longest(limit string) int64 {
	if i := s.cfg.Index(limit); i >= 0 && s.cfg.Limits[i].Longest > 0 {
		return s.cfg.Limits[i].Longest
	}
	return usualLongestMS
}

// hold returns the hold of a limit, in ms; a minute if the configuration lacks it.
func (s *heldSlots) hold(limit string) int64 {
	if i := s.cfg.Index(limit); i >= 0 && s.cfg.Limits[i].Rate.IsSlots() {
		return s.cfg.Limits[i].Rate.Hold()
	}
	return usualHoldMS
}

// nextDue returns the instant, in Unix ms, of the next write for the slots alone or, if earlier, of the next
// lapse; bucket.Never without one. second is that of now, as secondAt counts.
func (s *heldSlots) nextDue(now, second int64) int64 {
	due := int64(bucket.Never)
	earlier := func(at int64) {
		if at != bucket.Never && (due == bucket.Never || at < due) {
			due = at
		}
	}
	for i := range s.Limits {
		name := s.Limits[i].Name
		earlier(s.Limits[i].Due(s.hold(name), now))
		if m := &s.more[i]; len(m.opened) > 0 {
			earlier(now + max(1, m.opened[0].second+s.longest(name)/1000+1-second)*1000)
		}
	}
	return due
}

// isEmpty reports whether no call is open and no slot is known.
func (s *heldSlots) isEmpty() bool {
	return !slices.ContainsFunc(s.Limits, func(l plan.LimitInFlight) bool { return l.Open > 0 || len(l.Epochs) > 0 })
}

// secondAt converts a time in ms since Registry.Began to a second, which is at least 2.
func secondAt(elapsed int64) int64 { return elapsed/1000 + unknownSecond + 1 }

// bookLanded books the moves of slots by a write that left the image after, and lists the slots that calls took
// as opened in second. It returns the windows of these, without amounts. Slots of another incarnation or
// another life of a limit are forgotten.
func (s *heldSlots) bookLanded(rows plan.Rows, after *schema.Image, second int64) (taken []plan.Signed) {
	for i := range rows {
		moves := rows[i].Moves()
		if moves == nil || moves.New == 0 && !moves.ChangesHeld() {
			continue
		}
		if string(s.Incarnation) != string(after.IncarnationID()) { // another bucket has none of the slots
			s.Incarnation = after.IncarnationID()
			for k := range s.Limits {
				s.Limits[k].Epochs, s.Limits[k].Doubtful = nil, nil
			}
		}
		limit, more := s.limit(rows[i].Name)
		if life := plan.WindowOf(after, limit.Name).Life(); life != limit.Life { // another life has none of them
			limit.Life, limit.Epochs, limit.Doubtful = life, nil, nil
		}
		limit.Landed(moves)
		if moves.New > 0 {
			more.addOpened(moves.New, second)
			taken = append(taken, plan.Signed{Name: rows[i].Name, Window: bucket.SlotsSince(second)})
		}
	}
	return taken
}

// bookUnanswered books the moves of slots by a write without an answer: the bucket perhaps has them.
func (s *heldSlots) bookUnanswered(rows plan.Rows) {
	for i := range rows {
		if moves := rows[i].Moves(); moves != nil && moves.ChangesHeld() {
			limit, _ := s.limit(rows[i].Name)
			limit.Unanswered(moves)
		}
	}
}

// countBegun counts slots, above 0 and in thousandths, as open from a second on. It books nothing in the
// bucket; the next write takes them.
func (s *heldSlots) countBegun(amounts []plan.Signed, second int64) {
	for _, a := range amounts {
		limit, more := s.limit(a.Name)
		limit.Open += a.Amount
		more.addOpened(a.Amount, second)
	}
}

// beginLate counts slots, above 0, of calls that were admitted before the bucket was known, as open from a second on.
func (s *heldSlots) beginLate(amounts []plan.Signed, second int64) {
	s.countBegun(amounts, second)
	for _, a := range amounts {
		_, more := s.limit(a.Name)
		more.late, more.lateSince = more.late+a.Amount, second
	}
}

// endLate counts the end, at a second, of calls that were admitted before the bucket was known. It skips amounts that
// were not counted as slots, because the limit was of another kind then.
func (s *heldSlots) endLate(amounts []plan.Signed, second int64) {
	for _, a := range amounts {
		if s.hasLate(a.Name) {
			_, more := s.limit(a.Name)
			a.Amount = min(a.Amount, more.late)
			more.late -= a.Amount
			s.countEnded([]plan.Signed{a}, second)
		}
	}
}

// hasLate reports whether calls of a limit are open whose slots were counted before their bucket was known.
func (s *heldSlots) hasLate(name string) bool {
	i := slices.IndexFunc(s.Limits, func(l plan.LimitInFlight) bool { return l.Name == name })
	return i >= 0 && s.more[i].late > 0
}

// countEnded takes slots, above 0 and in thousandths, of calls that have ended at a second off the open ones.
// The next write gives them back. Slots that have lapsed are skipped.
func (s *heldSlots) countEnded(amounts []plan.Signed, second int64) {
	for _, a := range amounts {
		limit, more := s.limit(a.Name)
		limit.Open -= more.endCalls(a.Amount, a.Window, second)
	}
}

// openSlots returns the slots of open calls at a limit, in thousandths. It adds an empty entry for a new limit.
func (s *heldSlots) openSlots(name string) int64 {
	limit, _ := s.limit(name)
	return limit.Open
}
