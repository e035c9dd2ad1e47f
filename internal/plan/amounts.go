package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Signed is an amount of one limit in millitokens. A take debits it. A correction charges it if it is
// positive, and gives it back if it is negative. Lists are in name order and never changed once built.
type Signed struct {
	// Name is the limit's.
	Name string
	// Amount is the amount in millitokens.
	Amount int64
	// Passed is the part of Amount that another level counts too, with the same sign.
	Passed int64
	// Window is the window from which a give-back was taken.
	Window bucket.WindowID
}

// AmountOf returns the amount of a limit in a list, in millitokens; false if it is not listed.
func AmountOf(list []Signed, name string) (int64, bool) {
	for _, s := range list {
		if s.Name == name {
			return s.Amount, true
		}
	}
	return 0, false
}

// Includes reports whether a limit is listed.
func Includes(list []Signed, name string) bool {
	_, ok := AmountOf(list, name)
	return ok
}

// Merged returns a new list, in name order, of the amounts of two lists combined by name, and their Passed
// parts likewise. A name in only one list counts as 0 in the other. The later window of a name counts; callers
// merge only give-backs of one window.
func Merged(a, b []Signed, combine func(x, y int64) int64) []Signed {
	out := make([]Signed, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			out = append(out, Signed{a[0].Name, combine(a[0].Amount, 0), combine(a[0].Passed, 0), a[0].Window})
			a = a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			out = append(out, Signed{b[0].Name, combine(0, b[0].Amount), combine(0, b[0].Passed), b[0].Window})
			b = b[1:]
		default:
			out = append(out, Signed{a[0].Name, combine(a[0].Amount, b[0].Amount), combine(a[0].Passed, b[0].Passed), max(a[0].Window, b[0].Window)})
			a, b = a[1:], b[1:]
		}
	}
	return out
}

// Plus returns the sums of two lists by name in a new list, or b itself if a is empty. Sums do not wrap: they
// stop at the bounds of int64.
func Plus(a, b []Signed) []Signed {
	if len(a) == 0 {
		return b
	}
	return Merged(a, b, bucket.SaturatingAdd)
}

// Negated returns a copy of the amounts with the opposite sign.
func Negated(amounts []Signed) []Signed {
	out := slices.Clone(amounts)
	for i := range out {
		out[i].Amount, out[i].Passed = -out[i].Amount, -out[i].Passed
	}
	return out
}

// Absolute returns a copy of the amounts without their signs.
func Absolute(amounts []Signed) []Signed {
	out := make([]Signed, len(amounts))
	for i, a := range amounts {
		out[i] = Signed{a.Name, max(a.Amount, -a.Amount), max(a.Passed, -a.Passed), a.Window}
	}
	return out
}

// Split separates charges, above 0, from give-backs. Amounts of 0 count as give-backs.
func Split(amounts []Signed) (charges, backs []Signed) {
	for _, a := range amounts {
		if a.Amount > 0 {
			charges = append(charges, a)
		} else {
			backs = append(backs, a)
		}
	}
	return charges, backs
}

// Tokens returns a map from the limits to their amounts in whole tokens. It rounds towards 0.
func Tokens(list []Signed) map[string]int64 {
	out := make(map[string]int64, len(list))
	for _, s := range list {
		out[s.Name] = s.Amount / 1000
	}
	return out
}
