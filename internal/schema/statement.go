package schema

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Statement is a conditional update. Statements may share Names, so they must not be changed.
type Statement struct {
	Update, Condition string
	Names             map[string]string
	Values            map[string]types.AttributeValue
}

// OpRule is the condition of a write on its op slot, so that it lands once.
type OpRule uint8

const (
	// OpAny requires nothing. It is for the first try of a take, and for the only try of a give-back after
	// another client's write to the slot.
	OpAny OpRule = iota
	// OpLast requires the slot to hold Last, the client's own last write. It is for every try of a give-back
	// that may be resent.
	OpLast
	// OpNotMine requires the slot not to hold this operation. It is for the resend of a take.
	OpNotMine
)

// Op identifies one try of one write.
type Op struct {
	Slot int
	Rule OpRule
	// ID is the new content of the slot: the operation and, in its last byte, the try.
	ID []byte
	// Last is the content that OpLast requires.
	Last []byte
}

// operation returns the id without its last byte, the try.
func (o Op) operation() []byte { return o.ID[:len(o.ID)-1] }

// required returns the id that the condition of the rule compares with the slot: Last, or the operation
// without its try.
func (o Op) required() []byte {
	if o.Rule == OpLast {
		return o.Last
	}
	return o.operation()
}

// statementBuilder writes expressions with positional placeholders, so that any
// attribute name is legal.
type statementBuilder struct {
	names  map[string]string // placeholder → attribute
	places map[string]string // attribute → placeholder
	values map[string]types.AttributeValue
	set    []string
	add    []string
	remove []string
	conds  []string
}

// newStatementBuilder returns a builder without changes and conditions.
func newStatementBuilder() *statementBuilder {
	return &statementBuilder{names: map[string]string{}, places: map[string]string{}, values: map[string]types.AttributeValue{}}
}

// name returns the placeholder of an attribute name, such as "#0". Equal names share one.
func (b *statementBuilder) name(attr string) string {
	if p, ok := b.places[attr]; ok {
		return p
	}
	p := "#" + strconv.Itoa(len(b.places))
	b.places[attr], b.names[p] = p, attr
	return p
}

// value adds a value and returns its placeholder, such as ":0".
func (b *statementBuilder) value(v types.AttributeValue) string {
	p := ":" + strconv.Itoa(len(b.values))
	b.values[p] = v
	return p
}

// setValue sets an attribute to a value.
func (b *statementBuilder) setValue(attr string, v types.AttributeValue) {
	b.set = append(b.set, b.name(attr)+" = "+b.value(v))
}

// addNumber adds n to a number attribute; an absent one counts as 0.
func (b *statementBuilder) addNumber(attr string, n int64) {
	b.add = append(b.add, b.name(attr)+" "+b.value(Number(n)))
}

// drop removes an attribute.
func (b *statementBuilder) drop(attr string) { b.remove = append(b.remove, b.name(attr)) }

// require adds a condition, given as text with placeholders. All conditions must hold.
func (b *statementBuilder) require(cond string) { b.conds = append(b.conds, cond) }

// compare requires attr to compare with v by the operator op, such as "=" or ">=".
func (b *statementBuilder) compare(attr, op string, v types.AttributeValue) {
	b.conds = append(b.conds, b.name(attr)+" "+op+" "+b.value(v))
}

// exists requires an attribute to exist.
func (b *statementBuilder) exists(attr string) {
	b.conds = append(b.conds, "attribute_exists("+b.name(attr)+")")
}

// absent requires an attribute not to exist.
func (b *statementBuilder) absent(attr string) {
	b.conds = append(b.conds, "attribute_not_exists("+b.name(attr)+")")
}

// incarnation requires the item to be the incarnation with a create's id or, for nil, to have no incarnation.
func (b *statementBuilder) incarnation(id []byte) {
	if id == nil {
		b.absent(attrIncarnation)
		return
	}
	b.compare(attrIncarnation, "=", Bytes(id))
}

// op records the write in its slot and adds the condition of its rule.
func (b *statementBuilder) op(o Op) {
	slot := opAttrs[o.Slot]
	b.setValue(slot, Bytes(o.ID))
	switch o.Rule {
	case OpLast:
		b.compare(slot, "=", Bytes(o.Last))
	case OpNotMine:
		place := b.name(slot)
		b.require("(attribute_not_exists(" + place + ") OR NOT begins_with(" + place + ", " + b.value(Bytes(o.operation())) + "))")
	case OpAny:
	}
}

// build returns the statement of all changes and conditions so far. It shares the builder's maps.
func (b *statementBuilder) build() Statement {
	var clauses []string
	for _, c := range []struct {
		verb  string
		parts []string
	}{{"SET ", b.set}, {"ADD ", b.add}, {"REMOVE ", b.remove}} {
		if len(c.parts) > 0 {
			clauses = append(clauses, c.verb+strings.Join(c.parts, ", "))
		}
	}
	return Statement{Update: strings.Join(clauses, " "), Condition: strings.Join(b.conds, " AND "), Names: b.names, Values: b.values}
}
