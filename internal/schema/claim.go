package schema

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// ClaimKind is the kind of a claim's change of one limit.
type ClaimKind uint8

const (
	// ClaimKeep credits and spends; Params means that the parameters change.
	ClaimKeep ClaimKind = iota
	// ClaimAdd adds a limit that the item does not have, with Tokens.
	ClaimAdd
	// ClaimAdopt completes a ghost. The tokens become Tokens if the ghost is still as in Seen.
	ClaimAdopt
	// ClaimRemove removes a limit that is full and no longer configured.
	ClaimRemove
	// ClaimRemoveGhost removes a ghost that is no longer configured.
	ClaimRemoveGhost
	// ClaimReplace removes a limit of the old kind, if it is still as in the image. A ClaimAdd in the same
	// claim adds the new kind.
	ClaimReplace
)

// ClaimLimit is the change of one limit by a claim.
type ClaimLimit struct {
	Name string
	Kind ClaimKind
	// Update is the change of the tokens and its bounds (ClaimKeep), or the lower bound of a removal.
	bucket.Update
	// Consumed is the change of the counter (ClaimKeep, ClaimAdopt) or its first value (ClaimAdd). Passed is
	// the same for the part that a level above counts too.
	Consumed, Passed int64
	// Tokens is the new value (ClaimAdd, ClaimAdopt). Seen is the ghost (ClaimAdopt, ClaimRemoveGhost) or the
	// limit (ClaimRemove, ClaimReplace, ClaimKeep) of the image.
	Tokens int64
	Seen   Stored
	// Window is the window of a quota after the claim.
	Window int64
	// Life is the new life that the limit begins; 0 if it continues the old one.
	Life uint16
	// Backs means that tokens are given back (ClaimKeep).
	Backs bool
	// Capacity and Rate are written if Params is set, and by ClaimAdd and ClaimAdopt.
	Params   bool
	Capacity int64
	Rate     bucket.Rate
}

// Claim is the write that moves the refill instant. It credits every limit, and brings new configuration and
// a new expiry.
type Claim struct {
	Seen *Image
	// Refilled is the new refill instant. Fingerprint and ConfigRead are those of the configuration, and TTL
	// is the new expiry; 0 for no expiry.
	Refilled    int64
	Fingerprint []byte
	ConfigRead  int64
	TTL         int64
	// Backs means that the write gives tokens back, so the item must be the same incarnation as the image.
	Backs  bool
	Limits []ClaimLimit
	Op     Op
}

// Statement returns the conditional update.
func (c *Claim) Statement() Statement {
	b := newStatementBuilder()
	b.op(c.Op)
	b.setValue(attrRefilled, Number(c.Refilled))
	b.setValue(attrFingerprint, Bytes(c.Fingerprint))
	b.setValue(attrConfigRead, Number(c.ConfigRead))
	if c.TTL > 0 {
		b.setValue(TTL, Number(c.TTL))
	} else {
		b.drop(TTL)
	}
	b.exists(PK)
	if c.Seen.HasRefilled {
		b.compare(attrRefilled, "=", Number(c.Seen.Refilled))
	} else {
		b.absent(attrRefilled)
	}
	if c.Seen.Fingerprint != nil {
		b.compare(attrFingerprint, "=", Bytes(c.Seen.Fingerprint))
	} else {
		b.absent(attrFingerprint)
	}
	if c.Backs {
		b.incarnation(c.Seen.Incarnation)
	}
	for i := range c.Limits {
		c.Limits[i].write(b)
	}
	return b.build()
}

func (l *ClaimLimit) write(b *statementBuilder) {
	a := attrsOf(l.Name, l.Seen.IsQuota() || l.Rate.IsQuota() && (l.Kind == ClaimAdd || l.Kind == ClaimAdopt))
	switch l.Kind {
	case ClaimKeep:
		l.keep(b, a)
	case ClaimAdd:
		b.absent(a.burst)
		b.absent(a.tokens)
		b.setValue(a.tokens, Number(l.Tokens))
		b.setValue(a.consumed, Number(l.Consumed))
		b.addPassed(a, l.Passed)
		l.begin(b, a)
		l.params(b, a)
	case ClaimAdopt:
		l.stillGhost(b, a)
		b.setValue(a.tokens, Number(l.Tokens))
		if l.Consumed != 0 {
			b.addNumber(a.consumed, l.Consumed)
		}
		b.addPassed(a, l.Passed)
		l.params(b, a)
	case ClaimRemove:
		b.exists(a.burst)
		b.compare(a.tokens, ">=", Number(l.Low))
		if a.isQuota() {
			b.compare(a.window, "=", Number(int64(l.Seen.Window)))
		}
		l.dropAll(b, a)
	case ClaimReplace:
		b.compare(a.burst, "=", Number(l.Seen.Burst))
		b.compare(a.tokens, "=", Number(l.Seen.Tokens))
		b.compare(a.consumed, "=", Number(l.Seen.Consumed))
		if a.isQuota() {
			b.compare(a.window, "=", Number(int64(l.Seen.Window)))
		}
		b.inLife(a, l.Seen.Life)
		l.dropAll(b, a)
	case ClaimRemoveGhost:
		l.stillGhost(b, a)
		l.dropAll(b, a)
	}
}

// keep credits and spends.
func (l *ClaimLimit) keep(b *statementBuilder, a limitAttrs) {
	b.exists(a.burst)
	if a.isQuota() {
		b.inWindow(a, int64(l.Seen.Window), l.Window)
	}
	if l.Life > 0 || l.Backs && (a.isQuota() || l.Seen.Life > 0) {
		b.inLife(a, l.Seen.Life)
	}
	l.begin(b, a)
	if l.Consumed != 0 {
		b.addNumber(a.consumed, l.Consumed)
	}
	b.addPassed(a, l.Passed)
	if l.HasLow {
		b.compare(a.tokens, ">=", Number(l.Low))
	}
	if l.Full {
		b.setValue(a.tokens, Number(l.Put))
	} else {
		if l.High != bucket.MaxTokens {
			b.compare(a.tokens, "<=", Number(l.High))
		}
		if l.Add != 0 {
			b.addNumber(a.tokens, l.Add)
		}
	}
	if l.Params {
		l.params(b, a)
	}
}

// begin writes the new life of a limit.
func (l *ClaimLimit) begin(b *statementBuilder, a limitAttrs) {
	if l.Life > 0 {
		b.setValue(a.life, Number(int64(l.Life)))
	}
}

// stillGhost requires a ghost to have and to lack the same attributes as in the image.
func (l *ClaimLimit) stillGhost(b *statementBuilder, a limitAttrs) {
	if l.Seen.has&hasBurst != 0 {
		b.compare(a.burst, "=", Number(l.Seen.Burst))
	} else {
		b.absent(a.burst)
	}
	if l.Seen.has&hasTokens != 0 {
		b.compare(a.tokens, "=", Number(l.Seen.Tokens))
	} else {
		b.absent(a.tokens)
	}
}

func (l *ClaimLimit) dropAll(b *statementBuilder, a limitAttrs) {
	for _, attr := range a.all() {
		b.drop(attr)
	}
	b.drop(a.passed) // another process may have added to it since the image
}

func (l *ClaimLimit) params(b *statementBuilder, a limitAttrs) {
	if a.isQuota() {
		if b.quotaRate(a, l.Rate); l.Kind != ClaimKeep {
			b.setValue(a.window, Number(l.Window))
		}
		return
	}
	b.setValue(a.capacity, Number(l.Capacity))
	b.setValue(a.burst, Number(l.Rate.Burst))
	b.setValue(a.amount, Number(l.Rate.Amount))
	b.setValue(a.period, Number(l.Rate.Period))
}

// quotaRate writes the allowance of a quota and its windows.
func (b *statementBuilder) quotaRate(a limitAttrs, r bucket.Rate) {
	b.setValue(a.burst, Number(r.Burst))
	b.setValue(a.windows, String(r.Windows().String()))
}

// inWindow requires a quota to be in the seen window. If window is a later one, the write opens it.
func (b *statementBuilder) inWindow(a limitAttrs, seen, window int64) {
	b.compare(a.window, "=", Number(seen))
	if window != seen {
		b.setValue(a.window, Number(window))
	}
}

// CreateLimit is one limit of a new bucket.
type CreateLimit struct {
	Name                     string
	Tokens, Consumed, Passed int64
	Capacity                 int64
	Rate                     bucket.Rate
	// Window is the window of a quota; 0 of a token bucket.
	Window int64
}

// Create is a new bucket item.
type Create struct {
	Keys             Keys
	Entity, Resource string
	Refilled         int64
	// Fingerprint is nil for a bucket that comes from another layout: the first write
	// brings the configuration.
	Fingerprint []byte
	ConfigRead  int64
	TTL         int64
	Limits      []CreateLimit
	OpID        []byte
}

// CreateCondition is the condition that nothing has the key.
const CreateCondition = "attribute_not_exists(" + PK + ")"

// attribute is one attribute of an item.
type attribute struct {
	name  string
	value types.AttributeValue
}

// attributes are those of the new item beside its key, in the order in which they are
// written. They fill every op slot, so that no late write of an earlier bucket under
// this key finds its own, and the id of the create becomes the item's incarnation.
func (c *Create) attributes() []attribute {
	as := make([]attribute, 0, 12+6*len(c.Limits))
	set := func(name string, value types.AttributeValue) { as = append(as, attribute{name, value}) }
	for _, slot := range opAttrs {
		set(slot, Bytes(c.OpID))
	}
	set(attrIncarnation, Bytes(c.OpID))
	set(attrRefilled, Number(c.Refilled))
	if c.Fingerprint != nil {
		set(attrFingerprint, Bytes(c.Fingerprint))
		set(attrConfigRead, Number(c.ConfigRead))
	}
	if c.TTL > 0 {
		set(TTL, Number(c.TTL))
	}
	set(attrEntity, String(c.Entity))
	set(attrResource, String(c.Resource))
	set(GSI2PK, String(c.Keys.Resource(c.Resource)))
	set(GSI2SK, String(BucketEntries+c.Entity))
	for _, l := range c.Limits {
		a := attrsOf(l.Name, l.Rate.IsQuota())
		set(a.tokens, Number(l.Tokens))
		set(a.consumed, Number(l.Consumed))
		if l.Passed != 0 && a.isQuota() {
			set(a.passed, Number(l.Passed))
		}
		if a.isQuota() {
			set(a.burst, Number(l.Rate.Burst))
			set(a.window, Number(l.Window))
			set(a.windows, String(l.Rate.Windows().String()))
			continue
		}
		set(a.capacity, Number(l.Capacity))
		set(a.burst, Number(l.Rate.Burst))
		set(a.amount, Number(l.Rate.Amount))
		set(a.period, Number(l.Rate.Period))
		if l.Passed != 0 {
			set(a.passed, Number(l.Passed))
		}
	}
	return as
}

// Item is the item that a create makes.
func (c *Create) Item() Item {
	item := c.Keys.Bucket(c.Entity, c.Resource).Attributes()
	for _, a := range c.attributes() {
		item[a.name] = a.value
	}
	return item
}

// Statement returns the update that makes the item, unless it exists. It is an update rather than a put,
// because an update names each attribute that it writes. A policy can then tell a bucket from limits, which
// have the same partition key.
func (c *Create) Statement() Statement {
	b := newStatementBuilder()
	for _, a := range c.attributes() {
		b.setValue(a.name, a.value)
	}
	b.absent(PK)
	return b.build()
}
