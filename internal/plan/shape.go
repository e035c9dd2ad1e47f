package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

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
