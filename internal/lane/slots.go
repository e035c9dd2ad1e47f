package lane

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// Slots keeps the slots of the process's open calls in one bucket. Every write of the lane moves them, and
// while calls are open, a timer makes the lane write in time. It is safe for concurrent use.
type Slots struct {
	site site
	// submit queues an op of the lane, and onLapse reports lapsed slots; it may be nil.
	submit  func(*Op)
	onLapse func(Lapsed)
	// inUse means that calls are open, or that slots of theirs are known. among has the slots in use.
	inUse atomic.Bool
	among *slotsInUse

	mu   *sync.Mutex // the lane's
	held heldSlots
	// timer fires at the instant armed, in Unix ms; armed is 0 while it is stopped.
	timer *time.Timer
	armed int64
	// idle counts the tries of tend, in a row, without an answer. earliest is the instant of the next try, in Unix ms.
	idle     int
	earliest int64
}

// noteAnswer books the slots that a write under a configuration moved: as held if it landed, as doubtful if it
// is unconfirmed. It returns the windows of the slots that calls took; nil unless the write landed. mu must be
// held.
func (s *Slots) noteAnswer(rows plan.Rows, a Answer, cfg *plan.Config) (taken []plan.Signed) {
	s.idle = 0
	s.held.useConfig(cfg)
	switch a.Verdict {
	case ddb.Landed:
		s.earliest = 0
		taken = s.held.bookLanded(rows, a.Image, secondAt(s.site.elapsed()))
	case ddb.Unconfirmed:
		s.held.bookUnanswered(rows)
	default:
	}
	return taken
}

// noteEnd takes the slots of the calls that an adjust ended off the open ones, unless its result is a certain
// failure. It ignores takes; mu must be held.
func (s *Slots) noteEnd(o *Op, r *Result) {
	if o.Take || r.Err != nil && !r.Unconfirmed {
		return
	}
	for _, a := range o.Amounts {
		if a.Window.IsSlots() {
			s.held.countEnded([]plan.Signed{{Name: a.Name, Amount: -a.Amount, Window: a.Window}}, secondAt(s.site.elapsed()))
		}
	}
}

// grantTogether counts the slots that a committed transaction took as open, adds their windows to r, and sets
// the timer.
func (s *Slots) grantTogether(r *Result, rows plan.Rows) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.useConfig(r.Config)
	r.LandedIn = append(r.LandedIn, s.held.bookLanded(rows, r.Image, secondAt(s.site.elapsed()))...)
	s.arm()
}

// countAdmitted counts slots of calls that a policy admitted without the bucket, and sets the timer. Amounts
// above 0 are open from now on, and the next write takes them. Calls of amounts below 0 have ended.
func (s *Slots) countAdmitted(amounts []plan.Signed, cfg *plan.Config) {
	begun, ended := plan.Split(amounts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.useConfig(cfg)
	s.held.countBegun(begun, secondAt(s.site.elapsed()))
	s.held.countEnded(plan.Negated(ended), secondAt(s.site.elapsed()))
	s.arm()
}

// countLate counts slots of calls that were admitted before their bucket was known, and sets the timer. Amounts
// above 0 are open from now on; calls of amounts below 0 have ended.
func (s *Slots) countLate(amounts []plan.Signed, cfg *plan.Config) {
	begun, ended := plan.Split(amounts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.useConfig(cfg)
	s.held.beginLate(begun, secondAt(s.site.elapsed()))
	s.held.endLate(plan.Negated(ended), secondAt(s.site.elapsed()))
	s.arm()
}

// HasLate reports whether calls are open whose slots of a limit were counted before their bucket was known.
func (s *Slots) HasLate(limit string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held.hasLate(limit)
}

// endLate counts the end of calls that were admitted before their bucket was known, and sets the timer. amounts are
// above 0. It skips those that were not counted as slots, whatever the kind of their limit is now.
func (s *Slots) endLate(amounts []plan.Signed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.endLate(amounts, secondAt(s.site.elapsed()))
	s.arm()
}

// giveBack counts slots, above 0, of calls that have ended without a write. The next write gives them back, and
// the timer is set to it.
func (s *Slots) giveBack(amounts []plan.Signed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.countEnded(amounts, secondAt(s.site.elapsed()))
	s.arm()
}

// admit counts slots as open, and returns true, if the process's share of the limits has room for them beside
// those of its open calls. free is the number of free millislots of the denying limit, else of the last one.
// seed, the process's, may round the share up to a slot; a batch call leaves the reserve.
func (s *Slots) admit(asked []plan.Signed, cfg *plan.Config, share float64, batch bool, seed uint64) (free int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range asked {
		n := cfg.RateOf(a.Name).Burst
		if at := cfg.Index(a.Name); batch && at >= 0 {
			n -= cfg.Limits[at].Rate.ReserveOf(cfg.Limits[at].Reserve)
		}
		free = plan.LocalSlots(n, share, seed) - s.held.openSlots(a.Name)
		if a.Amount > free && !cfg.InShadow(a.Name) {
			return free, false
		}
	}
	s.held.useConfig(cfg)
	s.held.countBegun(asked, secondAt(s.site.elapsed()))
	return free, true
}

// LeaveLocal gives back slots that the process's share had admitted. It skips amounts of other kinds of limits.
func (s *Slots) LeaveLocal(amounts []plan.Signed, cfg *plan.Config) {
	if slots, _ := cfg.SplitSlots(amounts); len(slots) > 0 {
		s.giveBack(slots)
	}
}

// slotsInUse are the slots of a process's open calls in all buckets.
type slotsInUse struct{ some[*Slots] }

// Sum returns the slots of the process's open calls by limit, in thousandths.
func (u *slotsInUse) Sum() (sum []plan.Signed) {
	for _, slots := range u.all() {
		sum = plan.Plus(sum, slots.needed())
	}
	return sum
}

// needed returns the slots of the bucket's open calls by limit, in thousandths.
func (s *Slots) needed() (slots []plan.Signed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.held.Limits {
		slots = append(slots, plan.Signed{Name: l.Name, Amount: l.Open})
	}
	return slots
}

// wait returns an estimate, in ms, of the time until one of a limit's slots is free. It is the mean duration of calls
// divided by the number of slots. n is that number in thousandths. It is 1000 before a call has ended, and else
// from 50 to the hold.
func (s *Slots) wait(limit string, n int64) int64 {
	const least, unknown = 50, 1000
	s.mu.Lock()
	defer s.mu.Unlock()
	_, more := s.held.limit(limit)
	mean := more.meanDuration()
	if mean == 0 {
		return unknown
	}
	return min(max(mean*1000/max(1, n), least), s.held.hold(limit))
}

// meanCall returns the mean duration of the last calls, in ms, of the limit with the longest; 0 before one has
// ended.
func (s *Slots) meanCall() (mean float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.held.more {
		mean = max(mean, float64(s.held.more[i].meanDuration()))
	}
	return mean
}

// probesPerHold is the least number of probes of a silent bucket in a hold.
const probesPerHold = 16

// longestProbe returns the longest wait between two probes of a bucket that has slots of open calls. It is a part of
// their hold, so that the slots are renewed in time after an outage of half a hold. It is unbounded without slots.
func (s *Slots) longestProbe() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := unbounded
	for _, l := range s.held.Limits {
		if l.Open > 0 {
			most = min(most, time.Duration(s.held.hold(l.Name))*time.Millisecond/probesPerHold)
		}
	}
	return most
}

// arm sets the timer to the next write for the slots alone, or stops it if none is due. It updates inUse, and
// the process's list of slots in use; after the end of the limiter it sets no timer. mu must be held.
func (s *Slots) arm() {
	switch used := !s.held.isEmpty(); {
	case s.inUse.Swap(used) == used:
	case used:
		s.among.add(s)
	default:
		s.among.remove(s)
	}
	if s.site.life.Err() != nil {
		return
	}
	now := s.site.access.NowMS()
	due := s.held.nextDue(now, secondAt(s.site.elapsed()))
	if due != bucket.Never {
		due = max(due, s.earliest)
	}
	switch {
	case due == bucket.Never && s.timer != nil:
		s.timer.Stop()
		s.armed = 0
	case due != bucket.Never && (s.armed == 0 || due < s.armed):
		s.armAt(due, now)
	}
}

// armAt sets the timer that calls tend to an instant, in Unix ms. mu must be held.
func (s *Slots) armAt(at, now int64) {
	s.armed = at
	wait := time.Duration(max(0, at-now)) * time.Millisecond
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.tend)
		return
	}
	s.timer.Reset(wait)
}

// tendRetryMS is the least time between two writes for the slots alone. Each try without a write doubles it, at most
// mostIdle times: the limit is one of another kind now, and may become one of calls in flight again.
const (
	tendRetryMS = 1000
	mostIdle    = 4
)

// tend is the timer's function. If a write for the slots is due, it queues one, even while the table is silent:
// that makes the lane probe its bucket. It ends calls that kept their slots too long, and reports them to
// onLapse.
func (s *Slots) tend() {
	s.mu.Lock()
	now, second := s.site.access.NowMS(), secondAt(s.site.elapsed())
	lapsed := s.held.lapseCalls(second)
	due := s.held.nextDue(now, second)
	writes := due != bucket.Never && due <= now && s.site.life.Err() == nil
	switch {
	case !writes:
	case s.site.Contact.silent(): // the lane probes the bucket meanwhile
		s.earliest = now + tendRetryMS
	default:
		s.earliest = now + tendRetryMS<<s.idle
		s.idle = min(s.idle+1, mostIdle)
	}
	s.armed = 0
	s.arm()
	cfg := s.held.cfg
	s.mu.Unlock()
	for _, one := range lapsed {
		if s.onLapse != nil {
			s.onLapse(one)
		}
	}
	if writes {
		s.submit(newTending(context.Background(), cfg))
	}
}
