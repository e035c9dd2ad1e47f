package laws

import (
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The laws of a calendar quota. Its true state is the usage of its n in the stored window, so it holds n −
// used, to the millitoken and in every mode. A wrong clock, or a late write, only moves the opening of a
// window. If a limit changes its kind, the new kind begins with the usage of the old one.

// decidedAt returns the earliest and the latest instant that the sender's clock may have shown at
// the decision, in true ms.
func (r *replay) decidedAt() (earliest, latest int64) {
	earliest, latest = r.sent.decided-r.j.rules.skew, r.sent.decided+r.j.rules.skew
	if r.sent.transaction {
		earliest -= r.j.rules.lateDecision
	}
	return earliest, latest
}

// addedQuota checks that a new quota begins in the window of the write's decision.
func (r *replay) addedQuota(name string, is *storedQuota) {
	earliest, latest := r.decidedAt()
	if is.window < is.at(earliest) || is.window > is.at(latest) {
		r.fail("L1: %s begins in %s, decided between %d and %d", name, is.key(), earliest, latest)
	}
}

// levels returns the levels that a quota may have had at the decision, one for each possible
// window, lowest first.
func (r *replay) levels(was *storedQuota) (levels []int64) {
	earliest, latest := r.decidedAt()
	for window := was.at(earliest); window <= was.at(latest); window++ {
		levels = append(levels, was.opened(window))
	}
	return levels
}

// quota replays the write on a limit that is a quota after it, or was one before: was or is may
// be nil. It sets the truth's queue to the usage.
func (r *replay) quota(t *truth, name string, a plan.Row, was, is *storedQuota) {
	switch {
	case is == nil:
		r.becameBucket(t, name, a, was)
	case was == nil:
		r.becameQuota(t, name, a, is)
	default:
		r.withinQuota(name, a, was, is)
	}
	if is != nil {
		if a.Take > 0 && is.tokens+a.Adjust < 0 {
			r.fail("L1: %s over-admitted: %d taken of %d leave %d", name, a.Take, is.n, is.tokens+a.Adjust)
		}
		t.queue = is.n - is.tokens
	}
	t.mixed, t.quota = true, is != nil
}

// becameQuota checks a token bucket that the write made a quota: its queue must count as used.
func (r *replay) becameQuota(t *truth, name string, a plan.Row, is *storedQuota) {
	r.j.tally["became a quota"]++
	r.recordFlip(name)
	r.addedQuota(name, is)
	r.j.inWindow[r.lotOf(name, is.key())] += a.Take + a.Adjust
	used := is.n - is.tokens - a.Take - a.Adjust
	if over := t.queue - r.j.slack(t) - used; over > 0 {
		r.fail("L1: %s became a quota with %d used, of a bucket's queue of %d", name, used, t.queue)
	}
	if used < 0 || r.j.rules.exact && used > t.queue+t.forgone {
		r.fail("L2: %s became a quota with %d used, of a bucket's queue of %d that forwent %d", name, used, t.queue, t.forgone)
	}
}

// becameBucket checks a quota that the write made a token bucket: it must begin with the quota's
// level. Its truth begins again as a queue.
func (r *replay) becameBucket(t *truth, name string, a plan.Row, was *storedQuota) {
	r.j.tally["became a bucket"]++
	r.recordFlip(name)
	l := &r.after.Limits[r.after.Set.Index(name)]
	begins, fits := l.Tokens+a.Take+a.Adjust, false
	for _, level := range r.levels(was) {
		fits = fits || begins == min(l.Burst, l.Burst+level-was.n)
	}
	if !fits {
		r.fail("L2: %s became a bucket with %d of %d, of a quota with %d of %d in %s", name, begins, l.Burst, was.tokens, was.n, was.key())
	}
	if a.Take > 0 && l.Tokens+a.Adjust < 0 {
		r.fail("L1: %s over-admitted as it became a bucket: %d taken leave %d", name, a.Take, l.Tokens+a.Adjust)
	}
	held := t.ahead.held
	*t = truth{queue: max(0, l.Burst-l.Tokens), changes: 1, surplus: r.late()}
	t.hold(l.Rate)
	t.ahead.held, t.ahead.queue = held, max(0, t.queue-held)
}

// late returns the time from the decision of the write to its landing, in ms.
func (r *replay) late() int64 {
	late := r.at - r.sent.decided
	if r.sent.transaction {
		late += r.j.rules.lateDecision
	}
	return late
}

// withinQuota checks a quota that stays one: its window, and its tokens to the millitoken, with
// the give-backs that the calls may make.
func (r *replay) withinQuota(name string, a plan.Row, was, is *storedQuota) {
	level, charges := r.window(name, was, is, a.Take+a.Adjust), int64(0)
	if r.sent.tells {
		charges = max(0, a.Late)
	}
	k, must, back := r.lotOf(name, is.key()), int64(0), int64(0)
	if is.key() == was.key() {
		must, back = r.returned(name, is.key())
	}
	want := level + is.n - was.n - a.Take - a.Adjust
	switch moved := is.tokens - want; {
	case moved > 0 && r.ofAnotherLife(name, a):
		r.fail("L1: %s was told %d back of another life", name, moved)
	case r.sent.tells && moved >= -charges && moved <= a.Back && (moved >= 0 || is.tokens >= 0):
		r.j.inWindow[k] -= moved
	case moved < 0 || moved > back:
		r.fail("L1: %s holds %d in %s, not %d and at most %d that was given back of it: from %+v, to %+v by %+v", name, is.tokens, is.key(), want, back, *was, *is, a)
	case r.j.rules.exact && moved < must && is.at(r.at) <= is.window:
		r.fail("L2: %s holds %d in %s, not %d and %d that was given back of it: from %+v, to %+v by %+v", name, is.tokens, is.key(), want, must, *was, *is, a)
	default:
		r.j.inWindow[k] -= moved
	}
	r.j.inWindow[k] += a.Take + a.Adjust
	if over := -r.j.inWindow[k]; over > 0 {
		r.fail("L1: %s was given back %d more in %s than was taken there", name, over, is.key())
	}
	if is.n != was.n {
		r.j.tally["quota changed"]++
	}
}

// window checks that the quota's window only moves forward, and only when the write's clock
// permits. It returns the level in it before the charges.
func (r *replay) window(name string, was, is *storedQuota, charged int64) (level int64) {
	earliest, latest := r.decidedAt()
	if is.unit != was.unit {
		r.j.tally["unit changed"]++
		r.recordFlip(name)
		r.addedQuota(name, is)
		levels := r.levels(was)
		for _, one := range levels { // the write may have opened a window of the old unit
			if is.tokens == one+is.n-was.n-charged {
				return one
			}
		}
		return levels[0]
	}
	if is.zone != was.zone {
		r.j.tally["zone changed"]++
		r.j.flips[r.lotOf(name, "")]++
	}
	switch {
	case is.window < was.window:
		r.fail("L1: %s went back from %s to %s", name, was.key(), is.key())
	case is.window > was.window:
		r.j.tally["opened"]++
		if is.window > is.at(latest) {
			r.fail("L1: %s opened %s, decided at %d at the latest, when its window was %d", name, is.key(), latest, is.at(latest))
		}
		if is.window < is.at(earliest) {
			r.fail("L2: %s opened %s, which had ended", name, is.key())
		}
	case charged > 0 && is.window < is.at(earliest):
		r.fail("L2: %s was charged in %s, which had ended", name, is.key())
	}
	return was.opened(is.window)
}

// returned returns the amounts that a write may give back to a window: for each call at most the amount that
// its lease took there since the limit last changed its kind or its unit. must is the part taken since the
// last change of the calendar, zone included. A client that has not seen that change may use the old
// calendar, and give back to the counter alone.
func (r *replay) returned(name, window string) (must, may int64) {
	k := r.lotOf(name, window)
	for _, part := range r.sent.parts() {
		for _, a := range part.amounts {
			if a.Name != name || a.Amount >= 0 {
				continue
			}
			if part.stake == nil {
				may -= a.Amount
				continue
			}
			s := part.stake.wholeStake()
			if s.takenIn(k, a) != k {
				continue
			}
			may += max(0, min(-a.Amount, s.inWindow[k], s.inWindow[k.since(inLife, r.j.lives)]))
			must += max(0, min(-a.Amount, s.inWindow[k], s.inWindow[k.since(inZone, r.j.flips)]))
		}
	}
	return must, may
}

// takenIn returns the window to give a back to: the one that its client names, if the lease took
// that much there, else here. A lease has tokens of two windows if an abandoned grant comes back
// after a later one has landed.
func (s *stake) takenIn(here windowLot, a plan.Signed) windowLot {
	for k, n := range s.inWindow {
		named := here
		named.window = k.window
		if k == named && k.ordinal() == a.Window.Ordinal() && n >= -a.Amount {
			return k
		}
	}
	return here
}

// windows adds the amounts that the write's calls took in a window to their stakes, and subtracts
// give-backs. With again, a write that landed before, takes do not count.
func (r *replay) windows(name, window string, again bool) {
	k := r.lotOf(name, window)
	for _, part := range r.sent.parts() {
		if part.stake == nil {
			continue
		}
		s := part.stake.wholeStake()
		for _, a := range part.amounts {
			switch {
			case a.Name != name:
			case a.Amount > 0 && !again:
				r.j.tookIn(s, k, a.Amount)
			case a.Amount < 0:
				for _, k := range r.j.spans(s.takenIn(k, a)) {
					s.inWindow[k] -= max(0, min(-a.Amount, s.inWindow[k]))
				}
			}
		}
	}
}

// recordFlip records that the limit changed its kind or unit: its tokens of before belong to another
// life.
func (r *replay) recordFlip(name string) {
	r.j.lives[r.lotOf(name, "")]++
	r.j.flips[r.lotOf(name, "")]++
}

// spans returns a window as a whole, its part in the limit's life, and its part since the last change of the
// calendar.
func (j *judge) spans(k windowLot) []windowLot {
	return []windowLot{k, k.since(inLife, j.lives), k.since(inZone, j.flips)}
}

// tookIn books an amount that a lease took in a window.
func (j *judge) tookIn(s *stake, k windowLot, amount int64) {
	for _, k := range j.spans(k) {
		s.inWindow[k] += amount
	}
}

// since returns the part of the window after the last of the limit's counted changes; what tells
// which changes.
func (k windowLot) since(what span, changes map[windowLot]int) windowLot {
	limit := k
	limit.window = ""
	k.span, k.changes = what, changes[limit]
	return k
}

// ofAnotherLife reports whether a pending update gives back tokens of another life of a limit than the
// present one.
func (r *replay) ofAnotherLife(name string, a plan.Row) bool {
	return r.sent.tells && a.Back > 0 && int(a.Window.Life()) != r.j.lives[r.lotOf(name, "")]
}

// ordinal returns the number of the window in its unit. It is 0 for a token bucket.
func (k windowLot) ordinal() (n int64) {
	if _, digits, quota := strings.Cut(k.window, " "); quota {
		n, _ = strconv.ParseInt(digits, 10, 64)
	}
	return n
}

// lotOf returns a window of one limit of the replayed item.
func (r *replay) lotOf(name, window string) windowLot {
	return windowLot{entity: r.entity, incarnation: r.j.incarnations[r.entity], limit: name, window: window}
}

// owes returns the debt of a limit at an instant: the queue of a token bucket, or the quota's
// usage in the window of that instant.
func owes(t *truth, item schema.Item, name string, at int64) int64 {
	q := quotaIn(item, name)
	if q == nil {
		return t.queue
	}
	return q.n - q.opened(q.at(at))
}

// quotaWorth checks package bucket's level of a quota.
func (r *replay) quotaWorth(name string, is *storedQuota, s bucket.State) {
	if want := is.opened(is.at(r.at)); s.Level(r.at) != want {
		r.fail("L2: %s is worth %d, not %d, in %s", name, s.Level(r.at), want, is.key())
	}
}
