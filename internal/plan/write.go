package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// housekeepingMS is the age of the refill instant at which a write moves it.
const housekeepingMS = 3_600_000

// Kind is the shape of a write.
type Kind uint8

// The shapes of a write.
const (
	Nothing  Kind = iota // nothing to write
	Create               // makes a bucket that does not exist
	Spend                // changes the tokens of the limits named
	Claim                // credits every limit and moves the refill instant
	GiveBack             // returns tokens, which needs no decision
	Tell                 // adds pending updates to the counters, and returns tokens
)

// Write is a decided write. Its op id is added when it is sent.
type Write struct {
	// Kind tells which of the others is set.
	Kind Kind
	// Housekeeping means that the claim could have been a spend.
	Housekeeping bool
	// Guess is the form that was chosen for full limits (see Crowding).
	Guess    bucket.Form
	Spend    schema.Spend
	Create   *schema.Create
	Claim    *schema.Claim
	GiveBack *schema.GiveBack
	// Money is the part about limits of money; nil without one.
	Money *schema.Money
}

// LeaveNote adds a note of waiters to a spend or claim, which replaces the bucket's note of batch calls or,
// without batch, of interactive calls. It does nothing for another write, and if n is nil.
func (p *Write) LeaveNote(n *schema.Note, batch bool) {
	if n == nil {
		return
	}
	switch next := (schema.NextNote{Batch: batch, Note: n.Bytes()}); p.Kind {
	case Spend:
		p.Spend.Notes = append(p.Spend.Notes, next)
	case Claim:
		p.Claim.Notes = append(p.Claim.Notes, next)
	default:
	}
}

// DropNotes removes the notes of waiters from the write, so that those of the bucket stay. It returns false if
// the write has none.
func (p *Write) DropNotes() (dropped bool) {
	if p.Claim != nil {
		dropped, p.Claim.Notes = p.Claim.Notes != nil, nil
	}
	dropped = dropped || p.Spend.Notes != nil
	p.Spend.Notes = nil
	return dropped
}

// SetMoney sets the part about limits of money, in a create also in its item; nil removes it.
func (p *Write) SetMoney(m *schema.Money) {
	if p.Money = m; p.Kind == Create {
		p.Create.Money = m
	}
}

// Statement returns the DynamoDB update with which a try of the write is sent. It stores the try's op in the
// write.
func (p *Write) Statement(o schema.Op) schema.Statement {
	if p.Money != nil && p.Kind != Create {
		alone := *p
		alone.Money = nil
		return p.Money.AddTo(alone.Statement(o))
	}
	switch p.Kind {
	case Create:
		p.Create.OpID = o.ID
		st, _ := p.Create.Statement()
		return st
	case Claim:
		p.Claim.Op = o
		return p.Claim.Statement()
	case GiveBack:
		p.GiveBack.Op = o
		return p.GiveBack.Statement()
	default:
		p.Spend.Op = o
		return p.Spend.Statement()
	}
}

// Rules are a caller's requirements of a plan, apart from the amounts.
type Rules struct {
	// Tidy allows a claim that is needed only for the age of the refill instant.
	Tidy bool
	// Later makes an adjust commute with claims. Decide sets it for adjusts that were refused
	// several times.
	Later bool
	// Halvings counts how many times the share that one write takes is halved.
	Halvings int
	// Left returns the promises that the take at index i must leave to waiters. It is nil if no caller waits.
	Left func(i int) Promises
	// Crowding is the estimate of other processes that write to the bucket while it is full.
	Crowding Crowding
}

// Plan decides the write for the sums of rows. It works out the facts of the rows; their takes must fit. It
// returns Nothing if there are no charges and no limit takes a give-back.
func (v View) Plan(rows Rows, rules Rules) Write { return v.decideWrite(v.Rows(rows, nil), rules) }

// decideWrite decides the write for rows that have their facts; Nothing if it would change nothing. It is a
// create if the bucket does not exist, and else a spend. A claim replaces the spend if that cannot carry the
// sums or bring the configuration, or to tidy an old refill instant.
func (v View) decideWrite(rows Rows, rules Rules) Write {
	if v.Image == nil {
		return v.planCreate(rows)
	}
	p, spends := Write{}, !v.Adopt && v.Image.HasRefilled && v.Image.Fingerprint != nil
	if spends {
		p, spends = v.planSpend(rows, rules.Crowding, rules.Later)
	}
	tidies := spends && rules.Tidy && v.Now-v.Image.Refilled > housekeepingMS
	if !spends || tidies {
		p = v.planClaim(rows, rules.Crowding)
	}
	p.Housekeeping = tidies
	return p
}

// planCreate decides a create, with every configured limit at its burst less its charges. It returns Nothing
// without a charge, because a give-back to a bucket that does not exist is dropped.
func (v View) planCreate(rows Rows) Write {
	charged := false
	c := schema.Create{
		Refilled: v.Now, Fingerprint: v.Config.Fingerprint, ConfigRead: v.Config.ReadAt - configMarginMS,
		Limits: make([]schema.Change, len(v.Config.Limits)),
	}
	for i := range v.Config.Limits {
		l := &v.Config.Limits[i]
		r := v.rowOf(rows, l.Name)
		out := r.Take + r.Adjust
		charged = charged || out > 0 || r.Late > 0
		if r.moves != nil {
			charged = charged || r.moves.Again > 0
			c.Limits[i] = r.newSlots(r.level - out)
			c.Limits[i].Window = bucket.InLife(0, r.window)
			continue
		}
		n := schema.NewLimit(l, r.level-out, out+max(0, r.Late))
		if n.Quota {
			n.Put, n.Window = n.Put-chargedLate(l.Rate, r, v.Now), bucket.InLife(0, r.window)
		}
		n.Passed = r.PassedOn
		c.Limits[i] = n
	}
	if !charged {
		return Write{Kind: Nothing}
	}
	if !v.Config.Permanent {
		c.TTL = Expiry(v.Now, c.Limits)
	}
	return Write{Kind: Create, Create: &c}
}

// LandedIn returns the limits of a landed write that the image shows in another window, or as another kind,
// with the window from which the write was decided. It serves after a lost answer, when only a later image
// shows that the write landed. The store does not check the life of a limit that is only charged, so an
// answer to the write itself, which shows the life, is the better witness.
func (p *Write) LandedIn(shown *schema.Image) (windows []Signed) {
	note := func(name string, window bucket.WindowID) {
		if WindowOf(shown, name) != window {
			windows = append(windows, Signed{Name: name, Window: window})
		}
	}
	switch p.Kind {
	case Spend:
		for i := range p.Spend.Limits {
			l := &p.Spend.Limits[i]
			note(l.Name, p.Spend.Seen.Limits[l.Place].WindowID())
		}
	case Claim:
		for i := range p.Claim.Limits {
			if l := &p.Claim.Limits[i]; l.Kind != schema.ReplaceLimit && l.Kind != schema.RemoveGhost {
				note(l.Name, l.Window)
			}
		}
	case Create:
		for i := range p.Create.Limits {
			note(p.Create.Limits[i].Name, p.Create.Limits[i].Window)
		}
	}
	return windows
}

// planSpend decides a spend, without limits that the bucket lacks; its kind is Nothing if it changes no limit.
// It returns false if a spend cannot carry the sums, for example because the expiry is too near. later makes a
// plain charge commute with claims.
//
//nolint:cyclop // one guard for each amount that few writes carry
func (v View) planSpend(rows Rows, others Crowding, later bool) (Write, bool) {
	s := schema.Spend{Seen: v.Image, Limits: make([]schema.Change, 0, len(rows)), LaterRefill: later}
	crowded := others.Slack > 0 || others.Refused > 0
	for i := range rows {
		r := &rows[i]
		if !r.stored || r.isZero() {
			continue
		}
		if r.mustClaim {
			return Write{}, false
		}
		var way bucket.Way
		if crowded && r.moves == nil {
			way = others.spendWay(r.state.Rate, r.Take+r.Keep, v.Now)
		}
		c := r.decideChange(way)
		if c.back > 0 || r.Take > 0 || c.Full || r.moves != nil {
			s.LaterRefill = false // only a plain charge below full commutes with claims
		}
		ttl, ok := v.spendExpiry(r, &c, later)
		if !ok || c.HasLow && !c.Full && c.Low > c.High { // no number of tokens is within the bounds
			return Write{}, false
		}
		if r.state.Tokens < c.out-MaxDebt/2 {
			c.boundDebt()
		}
		s.TTL = max(s.TTL, ttl)
		s.Backs = s.Backs || c.back > 0 || r.moves != nil && r.moves.ChangesHeld() || r.Late+c.back < r.Back // some come off the counter alone
		s.Limits = append(s.Limits, c.Change)
	}
	if len(s.Limits) == 0 {
		return Write{Kind: Nothing}, true
	}
	p := Write{Kind: Spend, Spend: s}
	if crowded {
		p.Guess = others.guessForm(v.Now)
	}
	return p, true
}

// A bucket may be deleted after its ttl. The ttl lies beyond the time at which every limit is full again,
// because a new bucket begins full.

const (
	// ttlFills is the distance of an expiry, in times of the longest fill.
	ttlFills = 7
	// minTTLSeconds is the least distance of an expiry.
	minTTLSeconds = 3600
	// maxTTLSeconds is the greatest distance of an expiry. A slower bucket has no ttl.
	maxTTLSeconds = 50 * 365 * 24 * 3600
)

// Expiry returns the ttl of a bucket made at now with these limits, in Unix seconds: seven times the slowest
// fill, at least an hour. It is 0, for no ttl, if that exceeds 50 years. now is in Unix ms.
func Expiry(now int64, limits []schema.Change) int64 {
	longest := int64(0)
	for i := range limits {
		longest = max(longest, limits[i].To.Rate.FillTime(-limits[i].Put))
	}
	return expiry(now, longest)
}

// expiry returns the ttl, in Unix seconds, of a bucket with a slowest fill of fill ms: seven fills after now,
// at least an hour. It is 0, for no ttl, if that exceeds 50 years. now is in Unix ms.
func expiry(now, fill int64) int64 {
	seconds := fill/1000 + 1
	if seconds > maxTTLSeconds/ttlFills {
		return 0
	}
	return now/1000 + 1 + max(minTTLSeconds, ttlFills*seconds)
}

// spendExpiry returns the earliest expiry, in Unix seconds, that a limit's change may leave: the limit must be
// full before the item can be deleted. It gives a charge without a lower bound one: the deepest debt that the
// expiry covers. ok is false if the expiry must move.
func (v View) spendExpiry(r *Row, c *change, later bool) (seconds int64, ok bool) {
	ttl, fill := v.Image.TTL, int64(0) // fill is the time in ms until the limit is full
	switch {
	case r.moves != nil:
		if !c.Slots.IsHolding() {
			return 0, true
		}
		fill = r.state.FillTime(0)
	case c.out == 0: // gives back: fuller sooner
		return 0, true
	case c.HasLow: // of the deepest debt
		fill = r.state.FillTime(-c.levelAfter(c.Low))
	case ttl == 0:
		fill = r.state.FillTime(-c.levelAfter(r.state.Tokens))
	default:
		covered := min(MaxDebt, r.state.DebtCovered(ttl*1000-v.Now))
		floor := c.lowestFor(covered)
		if later {
			floor = c.out - covered
		}
		if covered < 0 || r.state.Tokens < floor {
			return 0, false
		}
		c.raiseLow(floor)
		return ttl, true
	}
	seconds = (v.Now + min(fill, maxTTLSeconds*1000) + 999) / 1000 // rounded up
	return seconds, ttl == 0 || ttl >= seconds
}
