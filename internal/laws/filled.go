package laws

import (
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Buckets that an administrator fills: the queue of a reset limit is empty, that of one
// that is topped up is shorter by that much, and not below 0.

// filled replays what an administrator did to a bucket.
func (j *judge) filled(w *ddbmem.Write, f *filling, before, after *schema.Image) {
	j.tally["filled"]++
	if j.fillings[f.id] {
		j.fail(w, "L5: operation %s was done twice", f.id)
	}
	j.fillings[f.id] = true
	if before == nil {
		j.fail(w, "L7: an administrator made a bucket")
		return
	}
	if before.Refilled != after.Refilled || before.TTL != after.TTL || before.Set != after.Set || string(before.Of()) != string(after.Of()) {
		j.fail(w, "L10: an administrator changed more than tokens: %v, then %v", w.Old, w.New)
		return
	}
	for i, name := range after.Set.Names {
		j.filledLimit(w, f, name, &before.Limits[i], &after.Limits[i], after.State(i))
	}
}

func (j *judge) filledLimit(w *ddbmem.Write, f *filling, name string, was, is *schema.Stored, s bucket.State) {
	at, t := w.Time.UnixMilli(), j.buckets[bucketIn(w.New)][name]
	if was.Consumed != is.Consumed || was.Rate != is.Rate {
		j.fail(w, "L4: an administrator moved the counter or the rate of %s", name)
	}
	if t.quota {
		j.filledQuota(w, f, t, name)
		return
	}
	gained := j.gained(w, f, name, was, is, t.queue)
	t.queue = max(0, t.queue-gained)
	t.ahead.returns(gained, at, j.rules.horizon)
	if forgone := s.Burst - t.queue - s.Level(at); j.rules.exact && (forgone < 0 || forgone > t.forgone) {
		j.fail(w, "L2: %s is worth %d, not %d, after an administrator filled it", name, s.Level(at), s.Burst-t.queue)
	}
	t.forgone = min(t.forgone, max(0, s.Burst-t.queue-s.Level(at)))
}

// gained is by how much an administrator shortened the queue of a limit.
func (j *judge) gained(w *ddbmem.Write, f *filling, name string, was, is *schema.Stored, queue int64) int64 {
	gained := is.Tokens - was.Tokens
	asked := f.Limits == nil || slices.Contains(f.Limits, name)
	switch {
	case f.reset && asked:
		if is.Tokens != is.Burst {
			j.fail(w, "L2: %s was reset to %d of %d", name, is.Tokens, is.Burst)
		}
		return queue
	case gained != 0 && (!asked || gained != f.Add[name]):
		j.fail(w, "L4: %s gained %d of %d", name, gained, f.Add[name])
	}
	return gained
}
