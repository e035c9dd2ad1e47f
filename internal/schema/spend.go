package schema

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Spend is the usual write. It changes the tokens and counters of some limits and leaves the refill instant
// unchanged, so that spends of different clients commute. It lands if the item has the refill instant and the
// fingerprint of the image, an expiry that is late enough or none, and each limit of the write with tokens
// within the bounds of its change. Op adds the condition on its slot, and Backs that on the incarnation.
type Spend struct {
	Seen *Image
	// Limits are in the order of their places, at least one.
	Limits []Change
	// TTL is the earliest expiry that the write may leave; 0 for any.
	TTL int64
	// LaterRefill also accepts a later refill instant than the seen one. It is set for an adjust with bounds
	// that hold for any instant (High must allow no excess).
	LaterRefill bool
	// Backs means that the write gives tokens back, so the item must be the same incarnation as the image.
	Backs bool
	Op    Op
}

// Statement returns the conditional update. Its text comes from a cache, and only the values are built: Names
// are shared.
func (s *Spend) Statement() Statement {
	var shape [96]byte
	var room [32]operand
	text := s.Seen.Set.texts.textOf(s, s.shape(shape[:0]))
	return Statement{Update: text.update, Condition: text.condition, Names: text.names, Values: valuesOf(text.places, s.operands(room[:0]))}
}

// operands appends the values of the statement to o, in the order of the placeholders that text makes.
func (s *Spend) operands(o []operand) []operand {
	o = append(o, operand{bytes: s.Op.ID})
	if s.Op.Rule != OpAny {
		o = append(o, operand{bytes: s.Op.required()})
	}
	o = append(o, operand{number: s.Seen.Refilled}, operand{bytes: s.Seen.Fingerprint})
	if s.Backs && s.Seen.Incarnation != nil {
		o = append(o, operand{bytes: s.Seen.Incarnation})
	}
	if s.TTL > 0 {
		o = append(o, operand{number: s.TTL})
	}
	for i := range s.Limits {
		c := &s.Limits[i]
		seen, tokens := &s.Seen.Limits[c.Place], c.Add
		if c.SameLife && seen.Life > 0 {
			o = append(o, operand{number: int64(seen.Life)})
		}
		if c.Full {
			tokens = c.Put
		}
		o = append(o, operand{number: tokens}, operand{number: c.Consumed})
		if c.Passed != 0 {
			o = append(o, operand{number: c.Passed})
		}
		if c.Quota {
			o = append(o, operand{number: int64(seen.Window)})
		}
		if c.Full || c.HasLow {
			o = append(o, operand{number: c.Low})
		}
		if !c.Full && !c.Quota {
			o = append(o, operand{number: c.High})
		}
	}
	return o
}

// operand is a value of a statement: bytes or, without bytes, a number.
type operand struct {
	bytes  []byte
	number int64
}

// valuesOf returns the operands as values, by their placeholders. It makes few allocations: the digits of all
// numbers share one string. It changes the operands.
func valuesOf(places []string, operands []operand) map[string]types.AttributeValue {
	var room [384]byte
	digits, numbers := room[:0], 0
	for i := range operands {
		if o := &operands[i]; o.bytes == nil {
			digits = strconv.AppendInt(digits, o.number, 10)
			o.number = int64(len(digits)) // their end
			numbers++
		}
	}
	all, from := string(digits), int64(0)
	values := make(map[string]types.AttributeValue, len(places))
	n, b := make([]types.AttributeValueMemberN, 0, numbers), make([]types.AttributeValueMemberB, 0, len(operands)-numbers)
	for i, place := range places {
		if o := &operands[i]; o.bytes == nil {
			n = append(n, types.AttributeValueMemberN{Value: all[from:o.number]})
			from, values[place] = o.number, &n[len(n)-1]
		} else {
			b = append(b, types.AttributeValueMemberB{Value: o.bytes})
			values[place] = &b[len(b)-1]
		}
	}
	return values
}
