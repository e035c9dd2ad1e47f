package expr

import (
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// Condition is a parsed condition or filter expression.
type Condition struct {
	Refs
	root node
}

// node is a boolean expression.
type node interface {
	holdsFor(e *Env, item value.Map) bool
	// check validates the operands without an item.
	check(e *Env) error
}

// Check fails if c uses an undefined placeholder, a literal of a wrong type, or operands that no item can
// satisfy. The error has DynamoDB's wording.
func (c *Condition) Check(e *Env) error {
	if err := c.Refs.check(e); err != nil {
		return err
	}
	return c.root.check(e)
}

// Holds reports whether item satisfies c. A nil item is a missing one: it has no attributes. c must have passed
// Check with e.
func (c *Condition) Holds(e *Env, item value.Map) bool { return c.root.holdsFor(e, item) }

// TopLevelNames returns the names of the top-level attributes in c, from left to right, with placeholders
// replaced. A name occurs as often as c uses it.
func (c *Condition) TopLevelNames(e *Env) []string {
	var names []string
	walkPaths(c.root, func(p path) { names = append(names, e.name(p[0].name)) })
	return names
}

type (
	andNode struct{ left, right node }
	orNode  struct{ left, right node }
	notNode struct{ of node }

	compareNode struct {
		op          string
		left, right operand
	}
	betweenNode struct{ of, low, high operand }
	inNode      struct {
		of   operand
		list []operand
	}
	functionNode struct {
		name string
		args []operand
	}
)

// holdsFor reports whether both sides hold. The right side is evaluated only if the left holds.
func (n *andNode) holdsFor(e *Env, item value.Map) bool {
	return n.left.holdsFor(e, item) && n.right.holdsFor(e, item)
}

// holdsFor reports whether one of the sides holds. The right side is evaluated only if the left does not
// hold.
func (n *orNode) holdsFor(e *Env, item value.Map) bool {
	return n.left.holdsFor(e, item) || n.right.holdsFor(e, item)
}

// holdsFor reports whether item does not satisfy the operand of NOT.
func (n *notNode) holdsFor(e *Env, item value.Map) bool { return !n.of.holdsFor(e, item) }

// holdsFor reports whether the comparison of both sides holds. It is false for every operator but <> if a value
// is missing or the types differ.
func (n *compareNode) holdsFor(e *Env, item value.Map) bool {
	return compareValues(n.op, n.left.eval(e, item), n.right.eval(e, item))
}

// compareValues compares a and b by one of = <> < <= > >=. It is false for every operator but <> if a value
// is missing or the types differ.
func compareValues(op string, a, b value.Value) bool {
	switch op {
	case "=":
		return a != nil && b != nil && value.Equal(a, b)
	case "<>":
		return a == nil || b == nil || !value.Equal(a, b)
	}
	order, ok := value.Compare(a, b)
	if !ok {
		return false
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// holdsFor reports whether the value is within both bounds, which count as inside. It is false if a value is
// missing or the types differ.
func (n *betweenNode) holdsFor(e *Env, item value.Map) bool {
	v := n.of.eval(e, item)
	return compareValues(">=", v, n.low.eval(e, item)) && compareValues("<=", v, n.high.eval(e, item))
}

// holdsFor reports whether the value equals one in the list. It is false if the value is missing from item.
func (n *inNode) holdsFor(e *Env, item value.Map) bool {
	v := n.of.eval(e, item)
	return slices.ContainsFunc(n.list, func(o operand) bool { return compareValues("=", v, o.eval(e, item)) })
}

// holdsFor reports whether the boolean function is true for item. For a missing attribute only
// attribute_not_exists is true; a value of the wrong type makes the others false.
func (n *functionNode) holdsFor(e *Env, item value.Map) bool {
	v := n.args[0].eval(e, item)
	switch n.name {
	case "attribute_exists":
		return v != nil
	case "attribute_not_exists":
		return v == nil
	case "attribute_type":
		kind, ok := n.args[1].eval(e, item).(value.String)
		return ok && v != nil && v.Type() == string(kind)
	case "begins_with":
		return hasPrefix(v, n.args[1].eval(e, item))
	}
	with := n.args[1].eval(e, item)
	return v != nil && with != nil && value.Contains(v, with)
}

// hasPrefix reports whether v begins with prefix. Both must be strings or both binaries; nil never matches.
func hasPrefix(v, prefix value.Value) bool {
	switch v := v.(type) {
	case value.String:
		p, ok := prefix.(value.String)
		return ok && len(v) >= len(p) && v[:len(p)] == p
	case value.Binary:
		p, ok := prefix.(value.Binary)
		return ok && len(v) >= len(p) && v[:len(p)] == p
	}
	return false
}

// check returns the first error of the left or the right side, nil if both are valid.
func (n *andNode) check(e *Env) error { return firstError(n.left.check(e), n.right.check(e)) }

// check returns the first error of the left or the right side, nil if both are valid.
func (n *orNode) check(e *Env) error { return firstError(n.left.check(e), n.right.check(e)) }

// check returns the operand's error.
func (n *notNode) check(e *Env) error { return n.of.check(e) }

// firstError returns the first of errs that is not nil, and nil if all are nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkLiteralType returns DynamoDB's error if operand o is a literal of a type outside types. It accepts a
// path, and a call of size, because their types depend on the item. function is for the error's text.
func checkLiteralType(e *Env, function string, o operand, types ...string) error {
	v := o.literal(e)
	if v == nil || slices.Contains(types, v.Type()) {
		return nil
	}
	return fmt.Errorf("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", function, v.Type()) //nolint:staticcheck // DynamoDB's wording
}

// checkSize fails if one of the operands is size() of a literal that has no size, such as a number.
func checkSize(e *Env, operands ...operand) error {
	for _, o := range operands {
		if s, ok := o.(sizeOf); ok {
			if err := checkLiteralType(e, "size", s.of, "S", "B", "L", "M", "SS", "NS", "BS"); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDistinct fails if the operand left is a path and one of rest is the same path, with placeholders
// resolved. The error names the operator op.
func checkDistinct(e *Env, op string, left operand, rest ...operand) error {
	p, ok := left.(path)
	if !ok {
		return nil
	}
	repeats := func(other operand) bool {
		q, ok := other.(path)
		return ok && p.resolve(e).equal(q.resolve(e))
	}
	if slices.ContainsFunc(rest, repeats) {
		return fmt.Errorf("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: %v", op, p.resolve(e)) //nolint:staticcheck // DynamoDB's wording
	}
	return nil
}

// check fails if both sides are the same path, or for size() of a literal without a size. It also fails if an
// ordering operator has a literal other than a string, number or binary.
func (n *compareNode) check(e *Env) error {
	if err := firstError(checkSize(e, n.left, n.right), checkDistinct(e, n.op, n.left, n.right)); err != nil {
		return err
	}
	if n.op == "=" || n.op == "<>" {
		return nil
	}
	return firstError(checkLiteralType(e, n.op, n.left, "S", "N", "B"), checkLiteralType(e, n.op, n.right, "S", "N", "B"))
}

// check fails if an operand is a literal of a type without order, or repeats the first path. Literal bounds
// must have one type, and the lower must not exceed the upper.
func (n *betweenNode) check(e *Env) error {
	err := firstError(checkSize(e, n.of, n.low, n.high), checkDistinct(e, "BETWEEN", n.of, n.low, n.high),
		checkLiteralType(e, "BETWEEN", n.of, "S", "N", "B"), checkLiteralType(e, "BETWEEN", n.low, "S", "N", "B"), checkLiteralType(e, "BETWEEN", n.high, "S", "N", "B"))
	if err != nil {
		return err
	}
	low, high := n.low.literal(e), n.high.literal(e)
	if low == nil || high == nil {
		return nil
	}
	const shown = "lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s"
	switch order, ok := value.Compare(low, high); {
	case !ok:
		return fmt.Errorf("The BETWEEN operator requires same data type for lower and upper bounds; "+shown, showValue(low), showValue(high)) //nolint:staticcheck // DynamoDB's wording
	case order > 0:
		return fmt.Errorf("The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "+shown, showValue(low), showValue(high)) //nolint:staticcheck // DynamoDB's wording
	}
	return nil
}

// showValue returns v as text in the form of DynamoDB's errors, such as {N:5}.
func showValue(v value.Value) string { return fmt.Sprintf("{%s:%v}", v.Type(), v) }

// check fails if size() has a wrong literal, or if the list repeats the path on the left.
func (n *inNode) check(e *Env) error {
	return firstError(checkSize(e, n.of), checkSize(e, n.list...), checkDistinct(e, "IN", n.of, n.list...))
}

var typeNames = []string{"S", "N", "B", "SS", "NS", "BS", "BOOL", "NULL", "L", "M"}

// check fails if an argument cannot be valid for any item: no document path for attribute_exists, a wrong
// literal type, or a repeated path.
func (n *functionNode) check(e *Env) error {
	if err := checkSize(e, n.args...); err != nil {
		return err
	}
	switch n.name {
	case "attribute_exists", "attribute_not_exists":
		if _, ok := n.args[0].(path); !ok {
			return fmt.Errorf("Operator or function requires a document path; operator or function: %s", n.name) //nolint:staticcheck // DynamoDB's wording
		}
	case "attribute_type":
		return n.checkAttributeType(e)
	case "begins_with":
		return firstError(checkLiteralType(e, n.name, n.args[0], "S", "B"), checkLiteralType(e, n.name, n.args[1], "S", "B"),
			checkDistinct(e, n.name, n.args[0], n.args[1]))
	case "contains":
		return checkDistinct(e, n.name, n.args[0], n.args[1])
	}
	return nil
}

// checkAttributeType fails unless the second argument of attribute_type is a literal string that names a
// type, such as "SS".
func (n *functionNode) checkAttributeType(e *Env) error {
	if _, ok := n.args[1].(literal); !ok {
		return fmt.Errorf("Incorrect operand type for operator or function; operator or function: %s, operand type: {attribute path}", n.name) //nolint:staticcheck // close to DynamoDB's wording
	}
	if err := checkLiteralType(e, n.name, n.args[1], "S"); err != nil {
		return err
	}
	if kind := n.args[1].literal(e).(value.String); !slices.Contains(typeNames, string(kind)) {
		return fmt.Errorf("Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", kind) //nolint:staticcheck // DynamoDB's wording
	}
	return nil
}
