package dynalimit

import (
	"slices"
	"strings"
)

// signed is an amount of one limit in millitokens: of a take, or positive to
// charge and negative to give back. Lists of them are in name order and are
// never changed once built.
type signed struct {
	name   string
	amount int64
}

// signedOf converts whole tokens.
func signedOf(a Amounts) []signed {
	out := make([]signed, 0, len(a))
	for name, n := range a {
		out = append(out, signed{name, n * milli})
	}
	slices.SortFunc(out, func(a, b signed) int { return strings.Compare(a.name, b.name) })
	return out
}

// tokensOf converts to whole tokens.
func tokensOf(list []signed) Amounts {
	out := make(Amounts, len(list))
	for _, s := range list {
		out[s.name] = s.amount / milli
	}
	return out
}

// amountOf is a limit's amount; false if it is not listed.
func amountOf(list []signed, name string) (int64, bool) {
	for _, s := range list {
		if s.name == name {
			return s.amount, true
		}
	}
	return 0, false
}

// merged combines two lists by name; a name that one lacks counts as 0 there.
func merged(a, b []signed, combine func(x, y int64) int64) []signed {
	out := make([]signed, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].name < b[0].name:
			out = append(out, signed{a[0].name, combine(a[0].amount, 0)})
			a = a[1:]
		case len(a) == 0 || b[0].name < a[0].name:
			out = append(out, signed{b[0].name, combine(0, b[0].amount)})
			b = b[1:]
		default:
			out = append(out, signed{a[0].name, combine(a[0].amount, b[0].amount)})
			a, b = a[1:], b[1:]
		}
	}
	return out
}

func plus(a, b []signed) []signed {
	if len(a) == 0 {
		return b
	}
	return merged(a, b, func(x, y int64) int64 { return x + y })
}
