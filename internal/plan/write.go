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
	Kind     Kind
	Spend    schema.Spend
	Create   *schema.Create
	Claim    *schema.Claim
	GiveBack *schema.GiveBack
	// Housekeeping means that the claim could have been a spend.
	Housekeeping bool
	// Guess is the form that was chosen for full limits (see Crowding).
	Guess bucket.Form
}

// LeaveNote makes a spend or a claim replace the note of waiters. Another write leaves it.
func (p *Write) LeaveNote(n *schema.Note) {
	var note []byte
	if n != nil {
		note = n.Bytes()
	}
	switch p.Kind {
	case Spend:
		p.Spend.Note = note
	case Claim:
		p.Claim.Note = note
	default:
	}
}

// HasNote reports whether the write replaces the note of waiters.
func (p *Write) HasNote() bool { return p.Spend.Note != nil || p.Claim != nil && p.Claim.Note != nil }

// Statement returns the update with which a try of the write is sent.
func (p *Write) Statement(o schema.Op) schema.Statement {
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
func (v View) Plan(rows Rows, rules Rules) Write { return v.plan(v.Rows(rows, nil), rules) }

// plan decides the write for rows that have their facts.
func (v View) plan(rows Rows, rules Rules) Write {
	if v.Image == nil {
		return v.planCreate(rows)
	}
	claim, housekeeping := v.mustClaim(rows), false
	if !claim && rules.Tidy && v.Now-v.Image.Refilled > housekeepingMS {
		claim, housekeeping = true, true
	}
	if !claim {
		if p, ok := v.planSpend(rows, rules.Crowding, rules.Later); ok {
			return p
		}
	}
	p := v.planClaim(rows, rules.Crowding)
	p.Housekeeping = housekeeping
	return p
}

// planCreate writes every configured limit at its burst less its charges. Only a charge makes a bucket: a
// give-back to a bucket that does not exist is dropped.
func (v View) planCreate(rows Rows) Write {
	charged := false
	c := schema.Create{
		Refilled: v.Now, Fingerprint: v.Config.Fingerprint, ConfigRead: v.Config.ReadAt - configMarginMS,
		Limits: make([]schema.Change, len(v.Config.Limits)),
	}
	for i := range v.Config.Limits {
		l := &v.Config.Limits[i]
		r := v.rowOf(rows, l.Name)
		charged = charged || r.out() > 0 || r.Late > 0
		if r.moves != nil {
			charged = charged || r.moves.Again > 0
			c.Limits[i] = r.newSlots(r.level - r.out())
			c.Limits[i].Window = bucket.InLife(0, r.window)
			continue
		}
		n := schema.NewLimit(l, r.level-r.out()-chargedLate(l.Rate, r, v.Now), r.out()+max(0, r.Late))
		n.Passed, n.Window = r.PassedOn, bucket.InLife(0, r.window)
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

// mustClaim reports whether the write must be a claim because a spend cannot carry the
// sums.
func (v View) mustClaim(rows Rows) bool {
	if v.Adopt || !v.Image.HasRefilled || v.Image.Fingerprint == nil {
		return true
	}
	for i := range rows {
		if rows[i].mustClaim && !rows[i].isZero() {
			return true
		}
	}
	return false
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
