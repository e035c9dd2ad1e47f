package prefetch

import "github.com/dynalimit/dynalimit/internal/plan"

const (
	// targetPart is the held part of the expected need of a horizon. It is below 1 because calls come
	// unevenly and unused tokens lapse.
	targetPart = 0.8
	// refetchPart is the part of the target at which more tokens are debited, in the background.
	refetchPart = 0.25
	// most bounds the target, in millitokens: more than any bucket holds.
	most = 1 << 60
	// milli is the number of millitokens in a token.
	milli = 1000
)

// target returns the amount of a limit that the stock aims to hold at now, in millitokens. That is 80 % of a
// horizon's need by the recent demand.
func (s *Stock) target(l *limitDemand, now int64) int64 {
	return int64(min(targetPart*l.used.sumAt(now, memoryMS)/memoryMS*float64(s.horizon), most))
}

// IsLow reports whether the stock of some limit is so small that more has to be debited. It is false for fewer
// than four calls a second.
func (s *Stock) IsLow(now int64) bool {
	if s.demand.calls.sumAt(now, memoryMS)*1000/memoryMS < leastCalls {
		return false
	}
	for i := range s.demand.limits {
		l := &s.demand.limits[i]
		if want := s.target(l, now); want > 0 && float64(s.heldOf(l.name, i)) <= refetchPart*float64(want) {
			return true
		}
	}
	return false
}

// Level is the present tokens of a limit in its bucket, and its burst.
type Level struct{ Level, Burst int64 }

// Want lets old tokens lapse, and returns the amounts to debit ahead with a write at now. They are in
// millitokens of whole tokens and in name order; nil means no prefetch. level returns the bucket after the
// other amounts of the write, false for a limit that the bucket lacks. Every limit stays half full. Of the part
// above half a process takes the share of its traffic, because lapsed tokens are lost to the bucket.
func (s *Stock) Want(level func(name string) (Level, bool), now int64) []plan.Signed {
	s.Expire(now)
	if !s.IsLow(now) {
		return nil
	}
	var want []plan.Signed
	for i := range s.demand.limits {
		l := &s.demand.limits[i]
		missing := s.target(l, now) - amountIn(s.held, l.name)
		if missing <= 0 {
			continue
		}
		bucket, ok := level(l.name)
		if !ok {
			return nil
		}
		spare := int64(float64(bucket.Level-(bucket.Burst+1)/2) * l.shareOfTraffic(now))
		if spare < milli {
			return nil // a call takes all its limits, so the others alone would serve none
		}
		n := min(missing, spare)
		if n -= n % milli; n > 0 { // calls take whole tokens
			a := entryOf(&want, l.name)
			if a.Amount = n; l.passed {
				a.Passed = n
			}
		}
	}
	return want
}
