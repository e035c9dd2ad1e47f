package expr

import (
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// KeyCondition is a query's condition on a table's or index's key.
type KeyCondition struct {
	Hash value.Value
	// Op is "" (any sort key), one of = < <= > >=, "BETWEEN" or "begins_with".
	Op        string
	Low, High value.Value // the operand; High for BETWEEN alone
}

var errKeyCondition = errors.New("Query key condition not supported") //nolint:staticcheck // DynamoDB's wording

// Key returns c as a key condition on the attributes hash and sort ("" if the key has none), with literals
// resolved. It fails, in DynamoDB's words, for a condition that is not supported on keys or lacks the hash key.
func (c *Condition) Key(e *Env, hash, sort string) (KeyCondition, error) {
	var k KeyCondition
	parts := flattenAnd(c.root, nil)
	for _, part := range parts {
		if err := k.addPart(e, part, hash, sort); err != nil {
			return k, err
		}
	}
	return k, k.checkComplete(len(parts), hash, sort)
}

// addPart stores one part of the condition in k. It fails for an operator that keys do not support or a second
// condition on the hash key. It skips parts about other attributes, which checkComplete rejects.
func (k *KeyCondition) addPart(e *Env, part node, hash, sort string) error {
	name, op, low, high, ok := keyTerm(e, part)
	switch {
	case !ok || op == "<>":
		return errors.New("Invalid operator used in KeyConditionExpression: " + operatorName(part))
	case name == hash && op == "=" && k.Hash == nil:
		k.Hash = low
	case name == sort && sort != "" && k.Op == "":
		k.Op, k.Low, k.High = op, low, high
	case name == hash:
		return errKeyCondition
	}
	return nil
}

// checkComplete fails unless k has the hash key's value and the condition is about hash and sort key alone.
// The condition had the given number of parts.
func (k *KeyCondition) checkComplete(parts int, hash, sort string) error {
	switch {
	case k.Hash == nil:
		return fmt.Errorf("Query condition missed key schema element: %s", hash) //nolint:staticcheck // DynamoDB's wording
	case k.Op == "" && parts > 1 && sort != "":
		return fmt.Errorf("Query condition missed key schema element: %s", sort) //nolint:staticcheck // DynamoDB's wording
	case parts > 2 || k.Op == "" && parts > 1:
		return errKeyCondition
	}
	return nil
}

// flattenAnd appends the operands of n to parts, from left to right, if n is a tree of ANDs, and returns the
// slice. Any other n is one part.
func flattenAnd(n node, parts []node) []node {
	if and, ok := n.(*andNode); ok {
		return flattenAnd(and.right, flattenAnd(and.left, parts))
	}
	return append(parts, n)
}

// keyTerm splits a term into attribute name, operator and literals; high is set for BETWEEN alone. It returns
// false unless the term compares a top-level attribute with literals. For :v < attribute the operator is
// mirrored.
func keyTerm(e *Env, n node) (name, op string, low, high value.Value, ok bool) {
	var left operand
	switch n := n.(type) {
	case *compareNode:
		left, op, low = n.left, n.op, n.right.literal(e)
		if p, isPath := n.right.(path); isPath { // :v < attribute
			if low = n.left.literal(e); low != nil {
				left, op = p, mirrored[op]
			}
		}
		ok = low != nil
	case *betweenNode:
		left, op, low, high = n.of, "BETWEEN", n.low.literal(e), n.high.literal(e)
		ok = low != nil && high != nil
	case *functionNode:
		if n.name == "begins_with" {
			left, op, low = n.args[0], n.name, n.args[1].literal(e)
			ok = low != nil
		}
	}
	p, isPath := left.(path)
	if !ok || !isPath || len(p) != 1 {
		return "", "", nil, nil, false
	}
	return e.name(p[0].name), op, low, high, true
}

var mirrored = map[string]string{"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// operatorName returns the operator or function of n for an error message. It returns "nested attributes" for
// BETWEEN and AND.
func operatorName(n node) string {
	switch n := n.(type) {
	case *orNode:
		return "OR"
	case *notNode:
		return "NOT"
	case *inNode:
		return "IN"
	case *functionNode:
		return n.name
	case *compareNode:
		return n.op
	}
	return "nested attributes"
}

// Matches reports whether the sort key value v satisfies k's condition on the sort key. Without such a
// condition it is true.
func (k KeyCondition) Matches(v value.Value) bool {
	switch k.Op {
	case "":
		return true
	case "BETWEEN":
		return compareValues(">=", v, k.Low) && compareValues("<=", v, k.High)
	case "begins_with":
		return hasPrefix(v, k.Low)
	}
	return compareValues(k.Op, v, k.Low)
}
