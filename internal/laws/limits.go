package laws

import (
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// replay is the replay of one write on the limits of its item.
type replay struct {
	j             *judge
	w             *ddbmem.Write
	entity        string
	at            int64
	sent          *sentWrite
	truths        map[string]*truth
	before, after *schema.Image // before is nil if the write made the item
}

// replayLimits replays a committed write on every limit of the bucket's item: first on those that it removed,
// then on those after it. before is nil if the write made the item.
func (j *judge) replayLimits(w *ddbmem.Write, entity string, sent *sentWrite, before, after *schema.Image, at int64) {
	if j.buckets[entity] == nil {
		j.buckets[entity] = map[string]*truth{}
	}
	r := &replay{j, w, entity, at, sent, j.buckets[entity], before, after}
	if before != nil {
		r.replayRemovals()
	}
	for k := range after.Set.Names {
		r.replayLimit(k)
	}
}

// replayRemovals records a violation for each limit that the write removed from the item while it owed tokens.
// It counts the removed limits, drops their true states, and keeps their prefetched tokens in j.heldOf.
func (r *replay) replayRemovals() {
	for _, name := range r.before.Set.Names {
		if r.after.Set.Index(name) >= 0 {
			continue
		}
		r.j.tally["removed"]++
		if t := r.truths[name]; t != nil && debtOf(t, r.w.Old, name, r.at+r.j.rules.skew) > r.j.clockTolerance(t) {
			r.fail("L8: %s was removed while it owed %d", name, t.queue)
		}
		if t := r.truths[name]; t != nil {
			r.j.heldOf[r.entity+"#"+name] = t.ahead.held
		}
		delete(r.truths, name)
	}
}

// replayLimit replays the write on the k-th limit of the item after it. It checks the counter, the queue or the
// quota, and the prefetched tokens. It updates the limit's true state, and adds the amounts to its account.
func (r *replay) replayLimit(k int) {
	i, name, l := -1, r.after.Set.Names[k], &r.after.Limits[k]
	if r.before != nil {
		i = r.before.Set.Index(name)
	}
	a := r.sent.sums.Of(name)
	debited, dropped := r.sent.prefetchOf(name)
	lapsed := r.lapsedTokens(name, a)
	dropped -= lapsed
	a.Late += dropped
	was, is := quotaIn(r.w.Old, name), quotaIn(r.w.New, name)
	if i < 0 {
		r.addTruth(k, name, a, is)
	} else {
		if back := r.j.appliedBack(r.sent, name, r.before, r.after); back != a.Back {
			r.j.dropped++
			a.Back, a.Passed = 0, a.PassedOn
			if r.sent.sums.Of(name).Take > 0 {
				r.fail("L4: %s gives back %d and takes, yet the counter shows neither", name, a.Back)
			}
		}
		r.checkCounter(name, a)
		if was == nil && is == nil {
			r.applyToQueue(r.truths[name], name, a)
		}
	}
	r.checkPassed(name, a, lapsed != 0)
	faster := i >= 0 && was == nil && is == nil && isFaster(l.Rate, r.before.Limits[i].Rate)
	t := r.truths[name]
	t.ahead.held -= lapsed
	a.Late += lapsed // it was never charged to a caller
	switch {
	case is == nil && (was == nil || i < 0):
		r.chargeQueue(name, a, t, l, faster)
	case i < 0:
		t.queue, t.mixed = is.n-is.tokens, true
		r.j.inWindow[r.lotOf(name, is.windowName())] += a.Take + a.Adjust
	default:
		r.replayQuota(t, name, a, was, is)
	}
	r.bookAmounts(name, a)
	r.bookWindows(name, is.windowName(), slices.Contains(r.sent.landedIn, r.j.incarnations[r.entity]))
	if r.sent.landings == 1 && r.sent.granted {
		t.ahead.held += debited
	}
	if t.ahead.held < 0 {
		r.fail("L4: %d of %s lapsed that were not debited ahead, or admitted", -t.ahead.held, name)
	}
	switch {
	case is != nil:
		r.checkQuotaLevel(name, is, r.after.State(k))
	case r.j.rules.exact:
		r.checkTokens(name, a.Take, t, r.after.State(k))
	}
}

// addTruth begins the record of the true state of the k-th limit, which the write added to the item, and checks
// its first tokens and window. is is nil for a token bucket.
func (r *replay) addTruth(k int, name string, a plan.Row, is *storedQuota) {
	l := &r.after.Limits[k]
	if r.checkFull(name, a, l); is != nil {
		r.checkFirstWindow(name, is)
		r.truths[name].quota = true
	}
	r.truths[name].ahead.held = r.j.heldOf[r.entity+"#"+name]
	if r.sent.landings > 1 { // made again, perhaps for an instant long ago
		r.truths[name].queue = l.Burst - r.after.State(k).Level(r.at)
	}
}

// checkFull begins the record of the true state of a limit new in the item, in r.truths. It records a violation
// unless the limit is full, less the charges of the write, and its counter shows these.
func (r *replay) checkFull(name string, a plan.Row, l *schema.Stored) {
	r.truths[name] = &truth{}
	out := a.Take + a.Adjust
	charged := l.Burst - out - l.Tokens // a quota may be charged a pending update, if it has room
	if l.IsQuota() && r.sent.tells && charged > 0 && l.Tokens >= 0 {
		charged -= min(charged, a.Late)
	}
	if charged != 0 || l.Consumed != out+a.Late {
		r.fail("L7: %s appeared with %d of %d tokens and the counter at %d for a charge of %d", name, l.Tokens, l.Burst, l.Consumed, out)
	}
}

// checkCounter records a violation unless the counter of a limit, which the item had before too, moved by the
// write's consumption.
func (r *replay) checkCounter(name string, a plan.Row) {
	was, is := &r.before.Limits[r.before.Set.Index(name)], &r.after.Limits[r.after.Set.Index(name)]
	if got, want := is.Consumed-was.Consumed, a.Consumed(); got != want {
		r.fail("L4: the counter of %s moved by %d for %d", name, got, want)
	}
}

// applyToQueue shortens the true queues of a token bucket, also that of admissions, by the write's give-backs,
// and adapts them to changed parameters. Tokens taken while the limit was a quota are not given back.
func (r *replay) applyToQueue(t *truth, name string, a plan.Row) {
	i, k := r.before.Set.Index(name), r.after.Set.Index(name)
	was, is := &r.before.Limits[i], &r.after.Limits[k]
	switch {
	case !t.mixed || a.Back == 0:
	case !r.sent.tells:
		_, a.Back = r.allowedGiveBacks(name, "")
	case r.isOfEarlierLife(name, a):
		a.Back = 0
	}
	t.queue = max(0, t.queue-a.Back)
	t.ahead.subtract(a.Back, r.at, r.j.rules.horizon)
	if was.Rate != is.Rate {
		t.changes++
		t.ahead.queue += max(0, is.Burst-was.Burst)
		t.ahead.subtract(was.Burst-is.Burst, r.at, r.j.rules.horizon)
		t.queue = max(0, t.queue+is.Burst-was.Burst) // a raise does not fill, a cut clamps
	}
}

// chargeQueue adds the write's granted and adjusted amounts to the true queues of a token bucket, once for a
// write that lands twice. It records a violation if the queue exceeds the burst. With faster, a claim credits
// the time of its own flight at the new, higher rate.
func (r *replay) chargeQueue(name string, a plan.Row, t *truth, l *schema.Stored, faster bool) {
	t.noteRate(l.Rate)
	first := r.sent.landings == 1
	granted := first && r.sent.granted && a.Take > 0
	if granted || first && (a.Adjust > 0 || faster) {
		t.surplus = max(t.surplus, r.flightTime())
	}
	if granted {
		debited, _ := r.sent.prefetchOf(name)
		t.queue += a.Take
		if wrong := r.j.admitFromMemory(t, name, a.Take-debited, l.Burst, r.at); wrong != "" {
			r.fail("%s", wrong)
		}
		if over := t.queue - l.Burst - r.j.clockTolerance(t); over > 0 {
			r.fail("L1: %s over-admitted by %d: %d taken at a queue of %d, burst %d, slack %d",
				name, over, a.Take, t.queue-a.Take, l.Burst, r.j.clockTolerance(t))
		}
	}
	if first {
		t.queue += a.Adjust
		t.ahead.addAdjust(a.Adjust, r.at, r.j.rules.horizon)
	}
}

// bookAmounts adds the write's amounts to the account of the limit. A write that lands again adds only its
// give-backs.
func (r *replay) bookAmounts(name string, a plan.Row) {
	acc, t := r.j.accountOf(r.entity, name), r.truths[name]
	acc.back += a.Back
	if r.sent.landings > 1 {
		return
	}
	if r.sent.granted && a.Take > 0 {
		r.j.tally["granted"]++
		if t.quota {
			r.j.tally["granted by a quota"]++
		}
		if strings.HasSuffix(r.entity, " on "+group) {
			r.j.tally["granted by a group"]++
		}
		debited, _ := r.sent.prefetchOf(name)
		acc.granted += a.Take - debited
	}
	acc.adjusted += a.Adjust
	switch {
	case !r.sent.tells:
		acc.adjusted += a.Late
	case t.mixed: // held in a window that has ended, and unused
		acc.told += a.Late
	}
}

// checkPassed records a violation unless the counter of amounts that a level above counts too moved as the
// write says. It adds the move to the account. With kept, lapsed tokens may have come off it.
func (r *replay) checkPassed(name string, a plan.Row, kept bool) {
	was := int64(0)
	if r.before != nil && r.before.Set.Index(name) >= 0 {
		was = r.before.Limits[r.before.Set.Index(name)].Passed
	} else {
		a.Passed = a.PassedOn
	}
	moved := r.after.Limits[r.after.Set.Index(name)].Passed - was
	if moved != a.Passed && !(kept && moved == a.PassedOn) {
		r.fail("L4: what a level above counts too of %s moved by %d for %d", name, moved, a.Passed)
	}
	r.j.accountOf(r.entity, name).passed += moved
}

// lapsedTokens returns the lapsed prefetched tokens, in millitokens, that the write took off the limit's
// counter. It is 0 if the client did not know the limit, or the write added it. It records a violation if a
// repeated write takes them off again.
func (r *replay) lapsedTokens(name string, a plan.Row) int64 {
	_, lapsed := r.sent.prefetchOf(name)
	if lapsed == 0 || r.before == nil || r.before.Set.Index(name) < 0 {
		return 0
	}
	moved := r.after.Limits[r.after.Set.Index(name)].Consumed - r.before.Limits[r.before.Set.Index(name)].Consumed
	if moved == a.Consumed()+lapsed {
		return 0
	}
	if r.sent.landings > 1 {
		r.fail("L5: %d of %s, which lapsed, are taken off the counter %d times", lapsed, name, r.sent.landings)
	}
	r.j.tally["lapsed"]++
	return lapsed
}

// checkTokens records a violation unless the bucket holds its burst less its true queue and an allowed slack,
// in an exact history. It sets t.forgone to the slack, in millitokens.
func (r *replay) checkTokens(name string, take int64, t *truth, s bucket.State) {
	forgone := s.Burst - t.queue - s.Level(r.at)
	if forgone < 0 || forgone > t.forgone && forgone > r.sent.mostSlack(s.Burst, t.fastest, take) {
		r.fail("L2: %s is worth %d, not %d, after %d refusals at full", name, s.Level(r.at), s.Burst-t.queue, r.sent.clashes)
	}
	if forgone > t.forgone {
		r.j.tally["forgone"]++
	}
	t.forgone = forgone
}

// mostSlack returns the largest slack, in millitokens, that a write may leave below the burst. It is 0 for a
// client without refusals at full, grows with each refusal, and never exceeds an eighth of the rest after the
// take.
func (w *sentWrite) mostSlack(burst int64, fastest bucket.Rate, take int64) int64 {
	switch w.clashes {
	case 0:
		return 0
	case 1, 2:
		return min(fastest.RefilledIn(32_000<<(w.clashes-1)), burst/32, (burst-take)/8)
	}
	return (burst - take) / 8
}

// fail adds a violation by the replayed write.
func (r *replay) fail(format string, args ...any) { r.j.fail(r.w, format, args...) }
