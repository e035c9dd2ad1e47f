package dynalimit

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/plan"
)

// part is what one bucket of a call's level is asked.
type part struct {
	amounts Amounts
	share   *share
}

// share is how what a bucket is charged differs from what the lease uses, for calls with
// WithAlso; nil of other calls.
type share struct {
	// more is what the bucket is charged of a limit beyond what the lease uses, or below it.
	more []plan.Signed
	// alone means that no other limits than those of more are charged.
	alone bool
}

// covers reports whether a limit is charged.
func (s *share) covers(name string) bool {
	if s == nil || !s.alone {
		return true
	}
	return slices.ContainsFunc(s.more, func(m plan.Signed) bool { return m.Name == name })
}

// further is what a bucket is charged when the lease uses amounts beside what it used.
func (s *share) further(used []plan.Signed, amounts Amounts) Amounts {
	if s == nil {
		return amounts
	}
	return plan.Tokens(plan.Plus(s.of(plan.Plus(used, signedOf(amounts))), plan.Negated(s.of(used))))
}

// of is what a bucket is charged for what the lease uses: nothing where nothing is used.
func (s *share) of(used []plan.Signed) []plan.Signed {
	if s == nil {
		return used
	}
	charged := make([]plan.Signed, 0, len(used))
	for _, u := range used {
		if !s.covers(u.Name) {
			continue
		}
		if more, _ := plan.AmountOf(s.more, u.Name); u.Amount > 0 {
			u.Amount = max(0, u.Amount+more)
		}
		charged = append(charged, u)
	}
	return charged
}
