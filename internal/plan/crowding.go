package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Processes that share a full bucket refuse each other: the filling form without slack requires that nobody
// has taken tokens since the image. With slack its condition also holds a little below full, and the write
// leaves the bucket there. The next takes are then plain adds, which commute. The tokens in the slack are
// forfeited, so a process that is not refused uses none. Everything here is pure.

const (
	// firstSlack is the slack after the first refusal at full, in µs of refill.
	firstSlack = 32_000
	// The slack is at most 1/usualShare of the burst. After urgentRefusals refusals it may grow to
	// 1/urgentShare of the tokens that the write leaves.
	usualShare     = 32
	urgentShare    = 8
	urgentRefusals = 3
	// slackDecay is the divisor of the slack: a landed write ends that part of it.
	slackDecay = 50
	// quietMS is the time without other writers after which the slack ends.
	quietMS = 250
	// recentGuesses is the number of guesses over which their refusals are averaged.
	recentGuesses = 8
	// guessDecay is subtracted from the other form's share at each guess, so that the other form is tried
	// again.
	guessDecay = 1. / 512
)

// Crowding is a lane's estimate of the other processes that write to its bucket.
type Crowding struct {
	// Slack is the gap below full that a write leaves in a full bucket, in µs of its refill.
	Slack int64
	// Refused counts the writes refused at full since the last one that landed.
	Refused int
	// Heard is the arrival of the last image, Trip the duration of its request, and othersAt the last known
	// write of another process; all in ms.
	Heard, Trip, othersAt int64
	// adding and filling are the recent shares of refused guesses, by form.
	adding, filling float32
}

// guessForm returns the form in which to write a full limit with an outdated image: the one with fewer recent
// refusals. It returns ByState, so that the image decides, without slack, for an image as fresh as its request,
// and after every odd refusal.
func (c Crowding) guessForm(now int64) bucket.Form {
	switch {
	case c.Slack == 0 || now-c.Heard <= c.Trip || c.Refused%2 == 1:
		return bucket.ByState
	case c.adding <= c.filling || now-c.Heard > MemoryMS: // the others may have left: then a refusal shows it
		return bucket.Adding
	}
	return bucket.Filling
}

// spendWay returns the form and slack with which a write takes from a token bucket. take is in millitokens and
// includes the reserve that it leaves. The form is Adding if guessForm chooses that; otherwise the image
// decides.
func (c Crowding) spendWay(r bucket.Rate, take, now int64) bucket.Way {
	w := bucket.Way{Slack: c.slackOf(r, take)}
	if c.guessForm(now) == bucket.Adding { // not Filling: a limit below full in its image adds
		w.Form = bucket.Adding
	}
	return w
}

// slackOf returns the slack of a limit from which a write takes an amount, both in millitokens. It is the
// refill in c.Slack, at most a thirty-second of the burst; from the third refusal on more. It never exceeds an
// eighth of the tokens that the amount leaves of the burst.
func (c Crowding) slackOf(r bucket.Rate, take int64) int64 {
	usual := r.Burst / usualShare
	s := min(r.RefilledIn(c.Slack), usual)
	if c.Refused >= urgentRefusals {
		s = max(s, usual) << min(c.Refused-urgentRefusals+1, 3)
	}
	return max(0, min(s, (r.Burst-take)/urgentShare))
}

// slackBound returns the highest slack of a limit, in µs of its refill: a thirty-second of the time in which it
// fills from empty.
func slackBound(r bucket.Rate) int64 {
	const most = 1 << 50
	return min(r.FillTime(0), most) / usualShare * 1000
}

// changes returns the changes of stored limits by a spend or a claim, and the image from which it was decided.
// It leaves out limits that a claim adds, replaces or removes. Both are nil for other writes.
func (p *Write) changes() (seen *schema.Image, list []schema.Change) {
	switch p.Kind {
	case Spend:
		return p.Spend.Seen, p.Spend.Limits
	case Claim:
		kept := slices.DeleteFunc(slices.Clone(p.Claim.Limits), func(c schema.Change) bool { return c.Kind != schema.KeepLimit })
		return p.Claim.Seen, kept
	}
	return nil, nil
}

// Evidence is the evidence of other writers in the answer to a write.
type Evidence struct {
	landed bool
	// guessed means that a full limit was written in a guessed form.
	guessed bool
	// others means that another process wrote after the image from which the write was decided. isLongFull
	// means that no process did for a long time: the limits that refused the write had been full.
	others, longFull bool
	// refusedAtFull means that the write was refused because of a full limit. mostSlack
	// is then the highest slack allowed.
	refusedAtFull bool
	mostSlack     int64
}

// EvidenceOf returns the evidence of other writers in the answer to write p. It compares the image of the
// decision with after: the bucket after a landed write, or the refusing bucket. If after is nil or has other
// limits, it assumes another writer.
func EvidenceOf(p *Write, landed bool, after *schema.Image, now int64) Evidence {
	m := Evidence{landed: landed}
	seen, list := p.changes()
	for i := range list {
		c := &list[i]
		m.guessed = m.guessed || !c.Quota && (c.Full || seen.Limits[c.Place].Tokens > c.High)
	}
	if seen == nil || after == nil || after.Set != seen.Set {
		m.others = seen != nil
		return m
	}
	if landed {
		m.others = !onlyOursConsumed(seen, after, list)
		return m
	}
	m.others = !onlyOursConsumed(seen, after, nil)
	if after.HasRefilled && after.Refilled == seen.Refilled {
		m.noteRefusedAtFull(list, after, now)
	} else {
		m.others = true
	}
	return m
}

// onlyOursConsumed reports whether the counters of two images with the same limits differ by our own changes
// alone. With nil for ours it reports whether no counter has changed.
func onlyOursConsumed(seen, after *schema.Image, ours []schema.Change) bool {
	moved := make([]int64, len(seen.Limits))
	for i := range ours {
		moved[ours[i].Place] = ours[i].Consumed
	}
	for i := range seen.Limits {
		if after.Limits[i].Consumed != seen.Limits[i].Consumed+moved[i] {
			return false
		}
	}
	return true
}

// noteRefusedAtFull sets refusedAtFull, mostSlack and longFull by the limits that refused a write for their
// level. Quotas and slots do not count.
func (m *Evidence) noteRefusedAtFull(list []schema.Change, after *schema.Image, now int64) {
	m.longFull = true
	for i := range list {
		c := &list[i]
		is := &after.Limits[c.Place]
		if is.Period <= 0 { // a quota is opened once, and slots are no tokens: neither has slack
			continue
		}
		if c.Full && is.Tokens >= c.Low || !c.Full && is.Tokens <= c.High {
			continue
		}
		m.refusedAtFull, m.mostSlack = true, max(m.mostSlack, slackBound(is.Rate))
		m.longFull = m.longFull && isLongFull(after.State(c.Place), now)
	}
	m.longFull = m.longFull && m.refusedAtFull
}

// isLongFull reports whether a limit has been full for 250 ms by its credit, so that no process can have taken
// from it meanwhile.
func isLongFull(s bucket.State, now int64) bool {
	credit, ok := s.Credit(now)
	return !ok || s.Tokens+credit-s.Burst >= max(1, s.RefilledIn(quietMS*1000))
}

// After returns the estimate after the answer to a write in the form guess, planned with c. A refusal at full
// doubles the slack up to a bound, and a landed write lowers it. The slack ends after 250 ms without signs of
// other writers, or when an Adding guess fails without them.
func (c Crowding) After(m Evidence, guess bucket.Form, now int64) Crowding {
	if m.guessed {
		c.countGuess(guess, m.refusedAtFull)
	}
	if m.others {
		c.othersAt = now
	}
	switch {
	case m.landed:
		c.Refused = 0
		c.Slack = max(0, c.Slack-c.Slack/slackDecay-1)
	case m.refusedAtFull:
		c.Refused++
		c.Slack = min(max(2*c.Slack, firstSlack), m.mostSlack)
	}
	wrong := m.refusedAtFull && guess == bucket.Adding
	if m.longFull || !m.others && (wrong || now-c.othersAt >= quietMS) {
		c.Slack = 0
	}
	return c
}

// countGuess updates c's shares of refused guesses by one guess. The share of its form averages about eight
// guesses; the other form's falls a little. ByState does not count.
func (c *Crowding) countGuess(guess bucket.Form, refused bool) {
	tried, other := &c.adding, &c.filling
	switch guess {
	case bucket.ByState:
		return
	case bucket.Filling:
		tried, other = other, tried
	}
	*other = max(0, *other-guessDecay)
	*tried -= *tried / recentGuesses
	if refused {
		*tried += 1. / recentGuesses
	}
}

// SlotsMemoryMS is MemoryMS for a bucket with slots: their calls end at any time.
const SlotsMemoryMS = 50

// MemoryMS is the age in ms up to which an image may deny without a read of the store.
const MemoryMS = 1000
