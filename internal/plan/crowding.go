package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Processes that share a full bucket refuse each other: the filling form without
// slack holds only on what nobody has taken from since. With slack it holds a
// little below full too, and puts the bucket there, so that the next takes are
// plain adds, which commute. What is put below full is lost, so a process that is
// not refused uses none. Everything here is pure.

const (
	// firstSlack is the slack after the first refusal at full, in µs of refill.
	firstSlack = 32_000
	// usualShare bounds the slack to that part of the burst, urgentShare that of
	// a write that was refused urgentRefusals times to that part of what it
	// leaves.
	usualShare     = 32
	urgentShare    = 8
	urgentRefusals = 3
	// slackDecay is the part of the slack that a landed write ends.
	slackDecay = 50
	// quietMS is how long nobody else may have written for the slack to end.
	quietMS = 250
	// recentGuesses is over how many guesses their luck is averaged.
	recentGuesses = 8
	// guessDecay is what one guess takes from the share of the other form, so
	// that it is tried again.
	guessDecay = 1. / 512
)

// Crowding is what a lane knows of the processes that write to its bucket beside
// it.
type Crowding struct {
	// Slack is how far below full a full bucket is left, in µs of its refill.
	Slack int64
	// Refused counts the writes refused at full since the last one that landed.
	Refused int
	// Heard is when the last image arrived, Trip how long its request took, and othersAt
	// when another process is last known to have written; all in ms.
	Heard, Trip, othersAt int64
	// adding and filling are the recent shares of guesses of that form that were
	// refused.
	adding, filling float32
}

// guess is the form in which a full limit is written if its image says little, because
// other processes have written since. It is the form that was refused less often of
// late. ByState means no guess: the form that the image gives.
func (c Crowding) guess(now int64) bucket.Form {
	switch {
	case c.Slack == 0 || now-c.Heard <= c.Trip || c.Refused%2 == 1:
		return bucket.ByState
	case c.adding <= c.filling || now-c.Heard > MemoryMS: // the others may have left: then a refusal shows it
		return bucket.Adding
	}
	return bucket.Filling
}

// spendWay is the form and slack with which a write takes from a limit.
func (c Crowding) spendWay(r bucket.Rate, take, now int64) bucket.Way {
	w := bucket.Way{Slack: c.slackOf(r, take)}
	if c.guess(now) == bucket.Adding { // not Filling: one whose image is below full adds
		w.Form = bucket.Adding
	}
	return w
}

// slackOf is the slack of a limit, in millitokens.
func (c Crowding) slackOf(r bucket.Rate, take int64) int64 {
	usual := r.Burst / usualShare
	s := min(r.RefilledIn(c.Slack), usual)
	if c.Refused >= urgentRefusals {
		s = max(s, usual) << min(c.Refused-urgentRefusals+1, 3)
	}
	return max(0, min(s, (r.Burst-take)/urgentShare))
}

// slackBound is usualShare of a limit's burst, in µs of its refill.
func slackBound(r bucket.Rate) int64 {
	const most = 1 << 50
	return min(r.FillTime(0), most) / usualShare * 1000
}

// touchedLimit is what a plan does to one limit of the image from which it was decided.
type touchedLimit struct {
	index    int
	update   bucket.Update
	consumed int64
}

// touchedLimits lists them, with that image; nil for a plan that was not decided from an
// image.
func (p *Write) touchedLimits() (seen *schema.Image, list []touchedLimit) {
	switch p.Kind {
	case Spend:
		for _, l := range p.Spend.Limits {
			list = append(list, touchedLimit{l.Index, l.Update, l.Consumed})
		}
		return p.Spend.Seen, list
	case Claim:
		for _, l := range p.Claim.Limits {
			if i := p.Claim.Seen.Set.Index(l.Name); i >= 0 && l.Kind == schema.ClaimKeep {
				list = append(list, touchedLimit{i, l.Update, l.Consumed})
			}
		}
		return p.Claim.Seen, list
	}
	return nil, nil
}

// Meeting is what the answer to a write shows of other writers.
type Meeting struct {
	landed bool
	// guessed means that a full limit was written in a guessed form.
	guessed bool
	// others means that another process wrote after the image from which the write was
	// decided. longFull means that none did for long: the limits that refused the write
	// had been full.
	others, longFull bool
	// refusedAtFull means that the write was refused because of a full limit. mostSlack
	// is then the highest slack allowed.
	refusedAtFull bool
	mostSlack     int64
}

// Meet compares a plan with the bucket after it, or with the bucket that refused it.
func Meet(p *Write, landed bool, after *schema.Image, now int64) Meeting {
	m := Meeting{landed: landed}
	seen, list := p.touchedLimits()
	for _, t := range list {
		m.guessed = m.guessed || !seen.Limits[t.index].IsQuota() && (t.update.Full || seen.Limits[t.index].Tokens > t.update.High)
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

// onlyOursConsumed reports whether nothing but our own amounts was consumed between two
// images.
func onlyOursConsumed(seen, after *schema.Image, ours []touchedLimit) bool {
	moved := make([]int64, len(seen.Limits))
	for _, t := range ours {
		moved[t.index] = t.consumed
	}
	for i := range seen.Limits {
		if after.Limits[i].Consumed != seen.Limits[i].Consumed+moved[i] {
			return false
		}
	}
	return true
}

// noteRefusedAtFull finds the limits that refused a write which was decided for their
// instant.
func (m *Meeting) noteRefusedAtFull(list []touchedLimit, after *schema.Image, now int64) {
	m.longFull = true
	for _, t := range list {
		is := &after.Limits[t.index]
		if is.IsQuota() { // it is opened once, and has no slack
			continue
		}
		if t.update.Full && is.Tokens >= t.update.Low || !t.update.Full && is.Tokens <= t.update.High {
			continue
		}
		m.refusedAtFull, m.mostSlack = true, max(m.mostSlack, slackBound(is.Rate))
		m.longFull = m.longFull && longFull(after.State(t.index), now)
	}
	m.longFull = m.longFull && m.refusedAtFull
}

// longFull reports whether a limit has been full for so long that nobody can have
// written lately.
func longFull(s bucket.State, now int64) bool {
	credit, ok := s.Credit(now)
	return !ok || s.Tokens+credit-s.Burst >= max(1, s.RefilledIn(quietMS*1000))
}

// After is the crowding after the answer to a write that was planned with c.
func (c Crowding) After(m Meeting, guess bucket.Form, now int64) Crowding {
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

// countGuess counts whether a guess was refused.
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

// Fresh reports whether an image seen at seenAt may still deny at now.
func Fresh(seenAt, now int64) bool { return now >= seenAt && now-seenAt <= MemoryMS }

// MemoryMS is how long an image may deny without asking the store.
const MemoryMS = 1000
