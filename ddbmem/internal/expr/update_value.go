package expr

import (
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// setValue is the right-hand side of a SET, or a part of it.
type setValue interface {
	eval(e *Env, item value.Map) (value.Value, error)
	check(e *Env) error
}

type (
	// plain is a path or a literal.
	plain struct{ operand }

	arithmetic struct {
		op          string
		left, right setValue
	}
	ifNotExists struct {
		at   path
		then setValue
	}
	listAppend struct{ left, right setValue }
)

// check returns nil: any path or literal is valid alone.
func (s plain) check(*Env) error { return nil }

// eval returns the operand's value, and ErrMissing if item lacks it.
func (s plain) eval(e *Env, item value.Map) (value.Value, error) {
	if v := s.operand.eval(e, item); v != nil {
		return v, nil
	}
	return nil, ErrMissing
}

// check fails if an operand is invalid or a literal that is not a number.
func (s arithmetic) check(e *Env) error {
	return firstError(s.left.check(e), s.right.check(e), checkLiteral(e, s.op, s.left, "N"), checkLiteral(e, s.op, s.right, "N"))
}

// checkLiteral fails if s is a literal of a type outside types. It accepts paths, and nested functions and
// arithmetic, because their types depend on the item.
func checkLiteral(e *Env, function string, s setValue, types ...string) error {
	if p, ok := s.(plain); ok {
		return checkLiteralType(e, function, p.operand, types...)
	}
	return nil
}

// eval returns the sum or difference of the operands. It fails with ErrMissing for a missing operand, with
// ErrOperandType unless both are numbers, and if the result is out of range.
func (s arithmetic) eval(e *Env, item value.Map) (value.Value, error) {
	left, right, err := evalBoth(e, item, s.left, s.right)
	if err != nil {
		return nil, err
	}
	a, aok := left.(value.Number)
	b, bok := right.(value.Number)
	if !aok || !bok {
		return nil, ErrOperandType
	}
	var n value.Number
	if s.op == "+" {
		n, err = a.Add(b)
	} else {
		n, err = a.Sub(b)
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// evalBoth returns the values of both operands for item, or the first error. It leaves right unevaluated if
// left fails.
func evalBoth(e *Env, item value.Map, left, right setValue) (a, b value.Value, err error) {
	if a, err = left.eval(e, item); err != nil {
		return nil, nil, err
	}
	if b, err = right.eval(e, item); err != nil {
		return nil, nil, err
	}
	return a, b, nil
}

// check returns the error of the second operand.
func (s ifNotExists) check(e *Env) error { return s.then.check(e) }

// eval returns the value at the path in item, or else the value or error of the second operand.
func (s ifNotExists) eval(e *Env, item value.Map) (value.Value, error) {
	if v := s.at.lookup(e, item); v != nil {
		return v, nil
	}
	return s.then.eval(e, item)
}

// check fails if an operand is invalid or a literal that is not a list.
func (s listAppend) check(e *Env) error {
	return firstError(s.left.check(e), s.right.check(e), checkLiteral(e, "list_append", s.left, "L"), checkLiteral(e, "list_append", s.right, "L"))
}

// eval returns a new list with the elements of the left list and then of the right. It fails with ErrMissing
// for a missing operand, and with ErrOperandType unless both are lists.
func (s listAppend) eval(e *Env, item value.Map) (value.Value, error) {
	left, right, err := evalBoth(e, item, s.left, s.right)
	if err != nil {
		return nil, err
	}
	a, aok := left.(value.List)
	b, bok := right.(value.List)
	if !aok || !bok {
		return nil, ErrOperandType
	}
	return slices.Concat(a, b), nil
}
