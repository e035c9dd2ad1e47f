package schema

import (
	"math/bits"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// SpendLimit is what a Spend does to one limit.
type SpendLimit struct {
	// Index is the limit's place in the image's set.
	Index int
	// Update holds the change of the tokens and its bounds.
	bucket.Update
	// Consumed is the change of the counter.
	Consumed int64
}

// Spend is the usual write: it changes the tokens and counters of some limits
// and leaves the refill instant, so that spends of different clients commute.
type Spend struct {
	Seen *Image
	// Limits in index order, at least one.
	Limits []SpendLimit
	// LaterRefill also accepts a later refill instant than the seen one: an
	// adjust whose bounds hold for any (High must allow no excess).
	LaterRefill bool
	// TTL is the earliest expiry the write may leave; 0 for a write that may
	// leave any.
	TTL int64
	Op  Op
}

// spendShape is what the text of a spend depends on, beside its limits.
type spendShape struct {
	limits, lows, fulls uint32 // bit per limit
	slot                uint8
	rule                OpRule
	later, ttl          bool
}

// spendText is the text of a spend: built once for each shape.
type spendText struct {
	update, condition string
	names             map[string]string
	places            []string // value placeholders in the order of values()
}

func (s *Spend) shape() spendShape {
	sh := spendShape{slot: uint8(s.Op.Slot), rule: s.Op.Rule, later: s.LaterRefill, ttl: s.TTL > 0}
	for _, l := range s.Limits {
		sh.limits |= 1 << l.Index
		if l.HasLow {
			sh.lows |= 1 << l.Index
		}
		if l.Full {
			sh.fulls |= 1 << l.Index
		}
	}
	return sh
}

// Statement returns the conditional update.
func (s *Spend) Statement() Statement {
	set, shape := s.Seen.Set, s.shape()
	set.mu.RLock()
	text := set.spends[shape]
	set.mu.RUnlock()
	if text == nil {
		text = set.spendText(shape)
		set.mu.Lock()
		set.spends[shape] = text
		set.mu.Unlock()
	}
	values := make(map[string]types.AttributeValue, len(text.places))
	next := 0
	put := func(v types.AttributeValue) {
		values[text.places[next]] = v
		next++
	}
	var numbers numbers
	numbers.prepare(len(text.places))
	put(Bytes(s.Op.ID))
	if s.Op.Rule != OpAny {
		put(Bytes(s.Op.required()))
	}
	put(numbers.value(s.Seen.Refilled))
	put(Bytes(s.Seen.Fingerprint))
	if s.TTL > 0 {
		put(numbers.value(s.TTL))
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		if l.Full {
			put(numbers.value(l.Put))
			put(numbers.value(l.Consumed))
			put(numbers.value(l.Low))
			continue
		}
		put(numbers.value(l.Add))
		put(numbers.value(l.Consumed))
		if l.HasLow {
			put(numbers.value(l.Low))
		}
		put(numbers.value(l.High))
	}
	numbers.finish()
	return Statement{Update: text.update, Condition: text.condition, Names: text.names, Values: values}
}

// numbers makes many number values with few allocations: the digits of all
// share one string.
type numbers struct {
	members []types.AttributeValueMemberN
	ends    []uint16
	digits  []byte
	fewEnds [32]uint16
	few     [384]byte
}

// prepare makes room for the values, at most so many.
func (n *numbers) prepare(most int) {
	n.members = make([]types.AttributeValueMemberN, 0, most)
	n.ends, n.digits = n.fewEnds[:0], n.few[:0]
}

// value returns a value that is whole once finish has been called.
func (n *numbers) value(v int64) types.AttributeValue {
	n.digits = strconv.AppendInt(n.digits, v, 10)
	n.ends = append(n.ends, uint16(len(n.digits))) //nolint:gosec // 20 limits have 80 numbers of 20 digits
	n.members = append(n.members, types.AttributeValueMemberN{})
	return &n.members[len(n.members)-1]
}

func (n *numbers) finish() {
	all, from := string(n.digits), uint16(0)
	for i, end := range n.ends {
		n.members[i].Value = all[from:end]
		from = end
	}
}

// spendText builds the text of a shape; the values are bound in the order in
// which Statement puts them.
func (s *LimitSet) spendText(shape spendShape) *spendText {
	b := newStatementBuilder()
	text := &spendText{}
	take := func() string {
		p := b.value(nil)
		text.places = append(text.places, p)
		return p
	}
	slot := b.name(opAttrs[shape.slot])
	b.set = append(b.set, slot+" = "+take())
	switch shape.rule {
	case OpLast:
		b.require(slot + " = " + take())
	case OpNotMine:
		b.require("(attribute_not_exists(" + slot + ") OR NOT begins_with(" + slot + ", " + take() + "))")
	case OpAny:
	}
	compare := " = "
	if shape.later {
		compare = " >= "
	}
	b.require(b.name(attrRefilled) + compare + take())
	b.require(b.name(attrFingerprint) + " = " + take())
	if shape.ttl {
		ttl := b.name(TTL)
		b.require("(attribute_not_exists(" + ttl + ") OR " + ttl + " >= " + take() + ")")
	}
	for left := shape.limits; left != 0; left &= left - 1 {
		i := bits.TrailingZeros32(left)
		a := s.attrs[i]
		tokens := b.name(a.tokens)
		b.exists(a.burst)
		if shape.fulls&(1<<i) != 0 {
			b.set = append(b.set, tokens+" = "+take())
			b.add = append(b.add, b.name(a.consumed)+" "+take())
			b.require(tokens + " >= " + take())
			continue
		}
		b.add = append(b.add, tokens+" "+take(), b.name(a.consumed)+" "+take())
		if shape.lows&(1<<i) != 0 {
			b.require(tokens + " BETWEEN " + take() + " AND " + take())
		} else {
			b.require(tokens + " <= " + take())
		}
	}
	st := b.build()
	text.update, text.condition, text.names = st.Update, st.Condition, st.Names
	return text
}

// GiveBackLimit returns tokens to one limit.
type GiveBackLimit struct {
	Name   string
	Amount int64
}

// GiveBack is the write that only returns tokens. It needs no image: it commutes
// with everything, requires the limits to exist, and its op rule makes it land
// at most once.
type GiveBack struct {
	Limits []GiveBackLimit
	Op     Op
}

// Statement returns the conditional update.
func (g *GiveBack) Statement() Statement {
	b := newStatementBuilder()
	b.op(g.Op)
	for _, l := range g.Limits {
		a := attrsOf(l.Name)
		b.addNumber(a.tokens, l.Amount)
		b.addNumber(a.consumed, -l.Amount)
		b.exists(a.burst)
	}
	return b.build()
}
