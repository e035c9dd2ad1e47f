package prefetch

import "github.com/dynalimit/dynalimit/internal/plan"

const (
	// targetPart is the part of what a horizon is expected to need that is held: calls
	// come unevenly, and what is not used lapses.
	targetPart = 0.8
	// refetchPart is the part of the aim at which more is debited, in the background.
	refetchPart = 0.25
	// most bounds what is aimed at, in millitokens: more than any bucket holds.
	most = 1 << 60
	// milli is the number of millitokens in a token.
	milli = 1000
)

// target is what is to be held of a limit at now, in millitokens.
func (s *Stock) target(l *limitDemand, now int64) int64 {
	return int64(min(targetPart*l.used.now(now, memoryMS)/memoryMS*float64(s.horizon), most))
}

// Low reports whether so little is held of some limit that more has to be debited.
func (s *Stock) Low(now int64) bool {
	if s.demand.calls.now(now, memoryMS)*1000/memoryMS < leastCalls {
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

// Level is what a bucket holds of a limit.
type Level struct{ Level, Burst int64 }

// Want is what a write at now is to debit ahead, in name order; nil for nothing.
// level shows the bucket as it will be after what the write takes besides, false for a limit
// that it does not have. Every limit must stay half full, and of what is above that
// a process takes the part that its traffic has: what lapses is lost to the bucket,
// so that nothing is debited ahead where tokens are scarce.
func (s *Stock) Want(level func(name string) (Level, bool), now int64) []plan.Signed {
	s.Expire(now)
	if !s.Low(now) {
		return nil
	}
	var want []plan.Signed
	for i := range s.demand.limits {
		l := &s.demand.limits[i]
		missing := s.target(l, now) - of(s.held, l.name)
		if missing <= 0 {
			continue
		}
		bucket, ok := level(l.name)
		if !ok {
			return nil
		}
		spare := int64(float64(bucket.Level-(bucket.Burst+1)/2) * l.shareOfTraffic(now))
		if spare < milli {
			return nil // of the others none would be served
		}
		n := min(missing, spare)
		if n -= n % milli; n > 0 { // calls take whole tokens
			a := at(&want, l.name)
			if a.Amount = n; l.passed {
				a.Passed = n
			}
		}
	}
	return want
}
