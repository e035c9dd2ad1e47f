package laws

import (
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// limits replays a write on every limit of its item.
func (j *judge) limits(w *ddbmem.Write, entity string, sent *sentWrite, before, after *schema.Image, at int64) {
	truths := j.buckets[entity]
	if truths == nil {
		truths = map[string]*truth{}
		j.buckets[entity] = truths
	}
	if before != nil {
		j.removed(w, entity, truths, before, after)
	}
	for k := range after.Set.Names {
		j.limit(w, entity, sent, truths, before, after, k, at)
	}
}

// removed checks that the limits which the item lost owed nothing.
func (j *judge) removed(w *ddbmem.Write, entity string, truths map[string]*truth, before, after *schema.Image) {
	for _, name := range before.Set.Names {
		if after.Set.Index(name) >= 0 {
			continue
		}
		j.tally["removed"]++
		if t := truths[name]; t != nil && t.queue > j.slack(t) {
			j.fail(w, "L8: %s was removed while it owed %d", name, t.queue)
		}
		if t := truths[name]; t != nil {
			j.heldOf[entity+"#"+name] = t.ahead.held
		}
		delete(truths, name)
	}
}

// limit replays a write on the kth limit of its item.
func (j *judge) limit(w *ddbmem.Write, entity string, sent *sentWrite, truths map[string]*truth, before, after *schema.Image, k int, at int64) {
	i, name, l := -1, after.Set.Names[k], &after.Limits[k]
	if before != nil {
		i = before.Set.Index(name)
	}
	a := sent.sums.Of(name)
	debited, dropped := sent.aheadIn(name)
	lapsed := j.lapses(w, sent, name, a, before, after)
	dropped -= lapsed
	a.Late += dropped
	if i < 0 {
		j.added(w, truths, name, a, l)
		truths[name].ahead.held = j.heldOf[entity+"#"+name]
		if sent.landings > 1 { // made again, and of a time that may be long ago
			truths[name].queue = l.Burst - after.State(k).Level(at)
		}
	} else {
		if back := j.appliedBack(sent, name, before, after); back != a.Back {
			j.dropped++
			a.Back, a.PassedBack = 0, 0
			if sent.sums.Of(name).Take > 0 {
				j.fail(w, "L4: %s gives back %d and takes, yet the counter shows neither", name, a.Back)
			}
		}
		j.changed(w, truths[name], name, a, before, after)
	}
	j.passes(w, entity, name, a, lapsed != 0, before, after)
	faster := i >= 0 && quicker(l.Rate, before.Limits[i].Rate)
	t := truths[name]
	t.ahead.held -= lapsed
	a.Late += lapsed // it was never charged to anybody
	j.charged(w, entity, name, sent, a, t, l, faster, at)
	if sent.landings == 1 && sent.granted {
		t.ahead.held += debited
	}
	if t.ahead.held < 0 {
		j.fail(w, "L4: %d of %s lapsed that were not debited ahead, or admitted", -t.ahead.held, name)
	}
	if j.rules.exact {
		j.holds(w, sent, name, a.Take, truths[name], after.State(k), at)
	}
}

// added is a limit that the item did not have: full, less what is taken.
func (j *judge) added(w *ddbmem.Write, truths map[string]*truth, name string, a plan.Named, l *schema.Stored) {
	truths[name] = &truth{}
	out := a.Take + a.Adjust
	if l.Tokens != l.Burst-out || l.Consumed != out+a.Late {
		j.fail(w, "L7: %s appeared with %d of %d tokens and the counter at %d for a charge of %d", name, l.Tokens, l.Burst, l.Consumed, out)
	}
}

// changed gives back and moves with the parameters.
func (j *judge) changed(w *ddbmem.Write, t *truth, name string, a plan.Named, before, after *schema.Image) {
	i, k := before.Set.Index(name), after.Set.Index(name)
	was, is := &before.Limits[i], &after.Limits[k]
	if got, want := is.Consumed-was.Consumed, a.Consumed(); got != want {
		j.fail(w, "L4: the counter of %s moved by %d for %d", name, got, want)
	}
	at := w.Time.UnixMilli()
	t.queue = max(0, t.queue-a.Back)
	t.ahead.returns(a.Back, at, j.rules.horizon)
	if was.Rate != is.Rate {
		t.ahead.queue += max(0, is.Burst-was.Burst)
		t.ahead.returns(was.Burst-is.Burst, at, j.rules.horizon)
		t.queue = max(0, t.queue+is.Burst-was.Burst) // a raise does not fill, a cut clamps
	}
}

// charged admits what was granted and adds what was adjusted.
// The time that a claim which raises the rate is under way is credited at the new
// one.
func (j *judge) charged(w *ddbmem.Write, entity, name string, sent *sentWrite, a plan.Named, t *truth, l *schema.Stored, faster bool, at int64) {
	t.hold(l.Rate)
	acc := j.account(entity, name)
	acc.back += a.Back
	first := sent.landings == 1
	granted := first && sent.granted && a.Take > 0
	if granted || first && (a.Adjust > 0 || faster) {
		late := at - sent.decided
		if sent.transaction {
			late += j.rules.lateDecision
		}
		t.surplus = max(t.surplus, late)
	}
	if granted {
		j.tally["granted"]++
		debited, _ := sent.aheadIn(name)
		acc.granted += a.Take - debited
		t.queue += a.Take
		if wrong := j.admits(t, name, a.Take-debited, l.Burst, at); wrong != "" {
			j.fail(w, "%s", wrong)
		}
		if over := t.queue - l.Burst - j.slack(t); over > 0 {
			j.fail(w, "L1: %s over-admitted by %d: %d taken at a queue of %d, burst %d, slack %d",
				name, over, a.Take, t.queue-a.Take, l.Burst, j.slack(t))
		}
	}
	if first {
		if acc.adjusted += a.Adjust; !sent.tells {
			acc.adjusted += a.Late
		}
		t.queue += a.Adjust
		t.ahead.adjusts(a.Adjust, at, j.rules.horizon)
	}
}

// passes replays what a write did to the part of a counter that a level above counts too.
// What lapses is taken off it only with the counter.
func (j *judge) passes(w *ddbmem.Write, entity, name string, a plan.Named, kept bool, before, after *schema.Image) {
	was := int64(0)
	if before != nil && before.Set.Index(name) >= 0 {
		was = before.Limits[before.Set.Index(name)].Passed
	} else {
		a.PassedBack = 0
	}
	moved := after.Limits[after.Set.Index(name)].Passed - was
	if moved != a.Passed() && !(kept && moved == a.PassedOn) {
		j.fail(w, "L4: what a level above counts too of %s moved by %d for %d", name, moved, a.Passed())
	}
	j.account(entity, name).passed += moved
}
