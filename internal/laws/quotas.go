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

// decidedAt returns the earliest and the latest instant, in true Unix ms, at which the sender may have decided
// by its clock.
func (r *replay) decidedAt() (earliest, latest int64) {
	earliest, latest = r.sent.decided-r.j.rules.skew, r.sent.decided+r.j.rules.skew
	if r.sent.transaction {
		earliest -= r.j.rules.lateDecision
	}
	return earliest, latest
}

// checkFirstWindow records a violation unless a quota new in the item begins in the window of the sender's
// decision, by any clock within the tolerance.
func (r *replay) checkFirstWindow(name string, is *storedQuota) {
	earliest, latest := r.decidedAt()
	if is.window < is.windowAt(earliest) || is.window > is.windowAt(latest) {
		r.fail("L1: %s begins in %s, decided between %d and %d", name, is.windowName(), earliest, latest)
	}
}

// possibleLevels returns the millitokens that a quota may have had at the sender's decision, lowest first. It
// has one number for each window that the sender's clock may have shown.
func (r *replay) possibleLevels(was *storedQuota) (levels []int64) {
	earliest, latest := r.decidedAt()
	for window := was.windowAt(earliest); window <= was.windowAt(latest); window++ {
		levels = append(levels, was.levelIn(window))
	}
	return levels
}

// replayQuota replays the write on a limit that is a quota after it, or was one before: was or is may be nil.
// It sets the limit's true queue to the quota's usage, in millitokens. More taken than the quota had is a
// violation.
func (r *replay) replayQuota(t *truth, name string, a plan.Row, was, is *storedQuota) {
	switch {
	case is == nil:
		r.replayToBucket(t, name, a, was)
	case was == nil:
		r.replayToQuota(t, name, a, is)
	default:
		r.replayWithinQuota(name, a, was, is)
	}
	if is != nil {
		if a.Take > 0 && is.tokens+a.Adjust < 0 {
			r.fail("L1: %s over-admitted: %d taken of %d leave %d", name, a.Take, is.n, is.tokens+a.Adjust)
		}
		t.queue = is.n - is.tokens
	}
	t.mixed, t.quota = true, is != nil
}

// replayToQuota replays the change of a token bucket to a quota, and counts it. It records a violation unless
// the queue of the bucket counts as used, and the window is right.
func (r *replay) replayToQuota(t *truth, name string, a plan.Row, is *storedQuota) {
	r.j.tally["became a quota"]++
	r.recordFlip(name)
	r.checkFirstWindow(name, is)
	r.j.inWindow[r.lotOf(name, is.windowName())] += a.Take + a.Adjust
	used := is.n - is.tokens - a.Take - a.Adjust
	if over := t.queue - r.j.clockTolerance(t) - used; over > 0 {
		r.fail("L1: %s became a quota with %d used, of a bucket's queue of %d", name, used, t.queue)
	}
	if used < 0 || r.j.rules.exact && used > t.queue+t.forgone {
		r.fail("L2: %s became a quota with %d used, of a bucket's queue of %d that forwent %d", name, used, t.queue, t.forgone)
	}
}

// replayToBucket replays the change of a quota to a token bucket, and begins the limit's true state again as a
// queue in *t. It counts the change, and records a violation unless the bucket begins with the quota's tokens.
func (r *replay) replayToBucket(t *truth, name string, a plan.Row, was *storedQuota) {
	r.j.tally["became a bucket"]++
	r.recordFlip(name)
	l := &r.after.Limits[r.after.Set.Index(name)]
	begins, fits := l.Tokens+a.Take+a.Adjust, false
	for _, level := range r.possibleLevels(was) {
		fits = fits || begins == min(l.Burst, l.Burst+level-was.n)
	}
	if !fits {
		r.fail("L2: %s became a bucket with %d of %d, of a quota with %d of %d in %s", name, begins, l.Burst, was.tokens, was.n, was.windowName())
	}
	if a.Take > 0 && l.Tokens+a.Adjust < 0 {
		r.fail("L1: %s over-admitted as it became a bucket: %d taken leave %d", name, a.Take, l.Tokens+a.Adjust)
	}
	held := t.ahead.held
	*t = truth{queue: max(0, l.Burst-l.Tokens), changes: 1, surplus: r.flightTime()}
	t.noteRate(l.Rate)
	t.ahead.held, t.ahead.queue = held, max(0, t.queue-held)
}

// flightTime returns the longest possible time from the decision of the write to its landing, in ms.
func (r *replay) flightTime() int64 {
	late := r.at - r.sent.decided
	if r.sent.transaction {
		late += r.j.rules.lateDecision
	}
	return late
}

// replayWithinQuota replays the write on a quota that stays a quota, and updates the sum taken in its window.
// It records a violation unless the window is right and the tokens are, to the millitoken, with the give-backs
// that the calls may make.
func (r *replay) replayWithinQuota(name string, a plan.Row, was, is *storedQuota) {
	level, charges := r.checkWindow(name, was, is, a.Take+a.Adjust), int64(0)
	if r.sent.tells {
		charges = max(0, a.Late)
	}
	k, must, back := r.lotOf(name, is.windowName()), int64(0), int64(0)
	if is.windowName() == was.windowName() {
		must, back = r.allowedGiveBacks(name, is.windowName())
	}
	want := level + is.n - was.n - a.Take - a.Adjust
	switch moved := is.tokens - want; {
	case moved > 0 && r.isOfEarlierLife(name, a):
		r.fail("L1: %s was told %d back of another life", name, moved)
	case r.sent.tells && moved >= -charges && moved <= a.Back && (moved >= 0 || is.tokens >= 0):
		r.j.inWindow[k] -= moved
	case moved < 0 || moved > back:
		r.fail("L1: %s holds %d in %s, not %d and at most %d that was given back of it: from %+v, to %+v by %+v", name, is.tokens, is.windowName(), want, back, *was, *is, a)
	case r.j.rules.exact && moved < must && is.windowAt(r.at) <= is.window:
		r.fail("L2: %s holds %d in %s, not %d and %d that was given back of it: from %+v, to %+v by %+v", name, is.tokens, is.windowName(), want, must, *was, *is, a)
	default:
		r.j.inWindow[k] -= moved
	}
	r.j.inWindow[k] += a.Take + a.Adjust
	if over := -r.j.inWindow[k]; over > 0 {
		r.fail("L1: %s was given back %d more in %s than was taken there", name, over, is.windowName())
	}
	if is.n != was.n {
		r.j.tally["quota changed"]++
	}
}

// checkWindow records a violation unless the quota's window moved only forward, and only as the sender's clock
// permits. It counts changes of unit and zone. It returns the millitokens in the window before the charges.
func (r *replay) checkWindow(name string, was, is *storedQuota, charged int64) (level int64) {
	earliest, latest := r.decidedAt()
	if is.unit != was.unit {
		r.j.tally["unit changed"]++
		r.recordFlip(name)
		r.checkFirstWindow(name, is)
		levels := r.possibleLevels(was)
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
		r.fail("L1: %s went back from %s to %s", name, was.windowName(), is.windowName())
	case is.window > was.window:
		r.j.tally["opened"]++
		if is.window > is.windowAt(latest) {
			r.fail("L1: %s opened %s, decided at %d at the latest, when its window was %d", name, is.windowName(), latest, is.windowAt(latest))
		}
		if is.window < is.windowAt(earliest) {
			r.fail("L2: %s opened %s, which had ended", name, is.windowName())
		}
	case charged > 0 && is.window < is.windowAt(earliest):
		r.fail("L2: %s was charged in %s, which had ended", name, is.windowName())
	}
	return was.levelIn(is.window)
}

// allowedGiveBacks returns the least and the most millitokens that the write gives back to a quota's window.
// The most is the sum that its leases took there since the limit last changed kind or unit. The least counts
// only since the last change of kind, unit or zone.
func (r *replay) allowedGiveBacks(name, window string) (must, may int64) {
	k := r.lotOf(name, window)
	for _, part := range r.sent.callParts() {
		for _, a := range part.amounts {
			if a.Name != name || a.Amount >= 0 {
				continue
			}
			if part.stake == nil {
				may -= a.Amount
				continue
			}
			s := part.stake.wholeStake()
			if s.giveBackWindow(k, a) != k {
				continue
			}
			may += max(0, min(-a.Amount, s.inWindow[k], s.inWindow[k.sinceChange(inLife, r.j.lives)]))
			must += max(0, min(-a.Amount, s.inWindow[k], s.inWindow[k.sinceChange(inZone, r.j.flips)]))
		}
	}
	return must, may
}

// giveBackWindow returns the window to which a gives back: the one that its client names, if the lease took
// that much there, else here. A lease has tokens of two windows if an abandoned grant comes back after a later
// one has landed.
func (s *stake) giveBackWindow(here windowLot, a plan.Signed) windowLot {
	for k, n := range s.inWindow {
		named := here
		named.window = k.window
		if k == named && k.windowNumber() == a.Window.Ordinal() && n >= -a.Amount {
			return k
		}
	}
	return here
}

// bookWindows adds the amounts that the write's calls took in a window to their stakes, and subtracts
// give-backs. With again, the write landed before, and takes do not count.
func (r *replay) bookWindows(name, window string, again bool) {
	k := r.lotOf(name, window)
	for _, part := range r.sent.callParts() {
		if part.stake == nil {
			continue
		}
		s := part.stake.wholeStake()
		for _, a := range part.amounts {
			switch {
			case a.Name != name:
			case a.Amount > 0 && !again:
				r.j.bookTaken(s, k, a.Amount)
			case a.Amount < 0:
				for _, k := range r.j.windowParts(s.giveBackWindow(k, a)) {
					s.inWindow[k] -= max(0, min(-a.Amount, s.inWindow[k]))
				}
			}
		}
	}
}

// recordFlip counts a change of the limit's kind or unit. Its earlier tokens then belong to another life.
func (r *replay) recordFlip(name string) {
	r.j.lives[r.lotOf(name, "")]++
	r.j.flips[r.lotOf(name, "")]++
}

// windowParts returns the keys under which a stake counts tokens of a window: the whole window, and its parts
// since the limit's last changes.
func (j *judge) windowParts(k windowLot) []windowLot {
	return []windowLot{k, k.sinceChange(inLife, j.lives), k.sinceChange(inZone, j.flips)}
}

// bookTaken adds an amount that a lease took in a window, in millitokens, to its stake. It counts in the sum of
// the window, and in those since the limit's last changes.
func (j *judge) bookTaken(s *stake, k windowLot, amount int64) {
	for _, k := range j.windowParts(k) {
		s.inWindow[k] += amount
	}
}

// sinceChange returns the key of the part of a window after the limit's last change of a kind. The map changes
// has the number of such changes by limit.
func (k windowLot) sinceChange(what span, changes map[windowLot]int) windowLot {
	limit := k
	limit.window = ""
	k.span, k.changes = what, changes[limit]
	return k
}

// isOfEarlierLife reports whether the write is a pending update that gives back tokens taken before the limit
// last changed its kind or unit.
func (r *replay) isOfEarlierLife(name string, a plan.Row) bool {
	return r.sent.tells && a.Back > 0 && int(a.Window.Life()) != r.j.lives[r.lotOf(name, "")]
}

// windowNumber returns the number of the window in its unit, from its name such as "hour 492000". It is 0 for a
// token bucket.
func (k windowLot) windowNumber() (n int64) {
	if _, digits, quota := strings.Cut(k.window, " "); quota {
		n, _ = strconv.ParseInt(digits, 10, 64)
	}
	return n
}

// lotOf returns the key of a window of one limit of the replayed item, in its present incarnation.
func (r *replay) lotOf(name, window string) windowLot {
	return windowLot{entity: r.entity, incarnation: r.j.incarnations[r.entity], limit: name, window: window}
}

// debtOf returns the debt of a limit at an instant (Unix ms), in millitokens. It is the true queue of a token
// bucket, or the quota's usage in its window.
func debtOf(t *truth, item schema.Item, name string, at int64) int64 {
	q := quotaIn(item, name)
	if q == nil {
		return t.queue
	}
	return q.n - q.levelIn(q.windowAt(at))
}

// checkQuotaLevel records a violation unless State.Level of package bucket at the write equals the level that
// this package computes from the item.
func (r *replay) checkQuotaLevel(name string, is *storedQuota, s bucket.State) {
	if want := is.levelIn(is.windowAt(r.at)); s.Level(r.at) != want {
		r.fail("L2: %s is worth %d, not %d, in %s", name, s.Level(r.at), want, is.windowName())
	}
}
