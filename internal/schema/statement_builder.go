package schema

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

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

// name returns the placeholder of an attribute name, such as "#0", and adds it to b at its first use. Equal
// names share one.
func (b *statementBuilder) name(attr string) string {
	if p, ok := b.places[attr]; ok {
		return p
	}
	p := "#" + strconv.Itoa(len(b.places))
	b.places[attr], b.names[p] = p, attr
	return p
}

// value adds a value to b and returns its placeholder, such as ":0". Equal values do not share one.
func (b *statementBuilder) value(v types.AttributeValue) string {
	p := ":" + strconv.Itoa(len(b.values))
	b.values[p] = v
	return p
}

// setValue adds a SET of an attribute to a value.
func (b *statementBuilder) setValue(attr string, v types.AttributeValue) {
	b.set = append(b.set, b.name(attr)+" = "+b.value(v))
}

// addNumber adds an ADD of n to a number attribute; an absent one counts as 0.
func (b *statementBuilder) addNumber(attr string, n int64) {
	b.add = append(b.add, b.name(attr)+" "+b.value(Number(n)))
}

// drop adds a REMOVE of an attribute.
func (b *statementBuilder) drop(attr string) { b.remove = append(b.remove, b.name(attr)) }

// require adds a condition, given as text with placeholders that b has already. All conditions must hold.
func (b *statementBuilder) require(cond string) { b.conds = append(b.conds, cond) }

// requireCompare adds the condition that attr compares with v by the operator op, such as "=" or ">=".
func (b *statementBuilder) requireCompare(attr, op string, v types.AttributeValue) {
	b.conds = append(b.conds, b.name(attr)+" "+op+" "+b.value(v))
}

// requireExists adds the condition that an attribute exists.
func (b *statementBuilder) requireExists(attr string) {
	b.conds = append(b.conds, "attribute_exists("+b.name(attr)+")")
}

// requireAbsent adds the condition that an attribute does not exist.
func (b *statementBuilder) requireAbsent(attr string) {
	b.conds = append(b.conds, "attribute_not_exists("+b.name(attr)+")")
}

// requireIncarnation adds to the statement the condition that the item is the incarnation with this id or, for
// nil, has no incarnation.
func (b *statementBuilder) requireIncarnation(id []byte) {
	if id == nil {
		b.requireAbsent(attrIncarnation)
		return
	}
	b.requireCompare(attrIncarnation, "=", Bytes(id))
}

// recordOp adds to the statement that the op slot becomes the write's id, and the condition of the op's rule.
func (b *statementBuilder) recordOp(o Op) {
	slot := opAttrs[o.Slot]
	b.setValue(slot, Bytes(o.ID))
	switch o.Rule {
	case OpLast:
		b.requireCompare(slot, "=", Bytes(o.Required))
	case OpNotMine:
		place := b.name(slot)
		b.require("(attribute_not_exists(" + place + ") OR NOT begins_with(" + place + ", " + b.value(Bytes(o.Required)) + "))")
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
