package laws

import (
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Buckets that an administrator fills. A reset empties the queue of a limit. A top-up shortens it by its
// amount, but not below 0.

// fill is an administrator's change of one limit, and the errors in it.
type fill struct {
	w *ddbmem.Write
	f *filling
	t *truth
	// exact, skew and horizon are the judge's.
	exact         bool
	skew, horizon int64
	name          string
	at            int64
	wrong         []string
}

// fail adds the text of a broken law, from a format, to x.wrong.
func (x *fill) fail(format string, args ...any) {
	x.wrong = append(x.wrong, fmt.Sprintf(format, args...))
}

// replayLimit replays an administrator's reset, top-up or grant on one limit, stored as was before and as is
// after, with the state s. It shortens the true queues in x.t and adds broken laws to x.wrong.
func (x *fill) replayLimit(was, is *schema.Stored, s bucket.State) {
	t := x.t
	if was.Consumed != is.Consumed || was.Rate != is.Rate {
		x.fail("L4: an administrator moved the counter or the rate of %s", x.name)
	}
	if t.quota {
		x.replayQuota()
		return
	}
	gained := x.gainedTokens(was, is, t.queue)
	t.queue = max(0, t.queue-gained)
	t.ahead.subtract(gained, x.at, x.horizon)
	if forgone := s.Burst - t.queue - s.Level(x.at); x.exact && (forgone < 0 || forgone > t.forgone) {
		x.fail("L2: %s is worth %d, not %d, after an administrator filled it", x.name, s.Level(x.at), s.Burst-t.queue)
	}
	t.forgone = min(t.forgone, max(0, s.Burst-t.queue-s.Level(x.at)))
}

// gainedTokens returns the millitokens that an administrator's change takes off the queue of a token bucket; a
// reset takes off all. It records a violation if the amount was not requested.
func (x *fill) gainedTokens(was, is *schema.Stored, queue int64) int64 {
	gained := is.Tokens - was.Tokens
	asked := x.f.Limits == nil || slices.Contains(x.f.Limits, x.name)
	switch {
	case x.f.reset && asked:
		if is.Tokens != is.Burst {
			x.fail("L2: %s was reset to %d of %d", x.name, is.Tokens, is.Burst)
		}
		return queue
	case gained != 0 && (!asked || gained != x.f.Add[x.name]):
		x.fail("L4: %s gained %d of %d", x.name, gained, x.f.Add[x.name])
	}
	return gained
}

// replayQuota replays an administrator's change of a quota, sets the true queue and adds broken laws to
// x.wrong. A grant may lift the quota above its amount until the next window, a top-up only up to that amount.
func (x *fill) replayQuota() {
	was, is, at, f, t, name := quotaIn(x.w.Old, x.name), quotaIn(x.w.New, x.name), x.at, x.f, x.t, x.name
	if was.unit != is.unit || was.zone != is.zone || was.n != is.n || is.window < was.window {
		x.fail("L10: an administrator changed more than the tokens of %s: %+v, then %+v", name, *was, *is)
	}
	if is.window > was.window && is.window > is.windowAt(at+x.skew) {
		x.fail("L1: an administrator opened %s of %s early", is.windowName(), name)
	}
	level := was.levelIn(is.window)
	add, gained := f.Add[name], is.tokens-level
	capped := min(add, max(0, is.n-level))
	if x.exact { // a window that is not opened yet lacks nothing
		capped = min(add, max(0, is.n-was.levelIn(max(is.window, was.windowAt(at)))))
	}
	x.checkQuotaGain(was, is, gained, add, capped)
	t.queue = is.n - is.tokens
}

// checkQuotaGain records a violation unless the millitokens that a quota gained are right. The amount add was
// requested, and capped is the part of it that fits below the quota's amount.
func (x *fill) checkQuotaGain(was, is *storedQuota, gained, add, capped int64) {
	f, name := x.f, x.name
	asked := f.Limits == nil || slices.Contains(f.Limits, name)
	switch {
	case f.reset && asked && is.tokens == was.tokens && was.tokens > is.n && is.window == was.window: // unchanged, with its grant
	case f.reset && asked && (is.tokens != is.n || is.window != was.window):
		x.fail("L2: %s was reset to %d of %d in %s", name, is.tokens, is.n, is.windowName())
	case f.reset && asked:
	case !asked && (gained != 0 || is.window != was.window), f.grant && gained != add, !f.grant && gained > capped, x.exact && !f.grant && gained != capped, gained < 0:
		x.fail("L4: %s gained %d of %d: %+v, then %+v", name, gained, add, *was, *is)
	}
}
