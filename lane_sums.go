package dynalimit

import "github.com/dynalimit/dynalimit/internal/plan"

// summed adds as many adjusts to the sums as fit, in their order, and returns
// them; the others are left for the next write.
func (l *lane) summed(adjusts []*op, s *plan.Sums) []*op {
	for i, o := range adjusts {
		if s.Overflows(o.amounts) {
			l.requeue(adjusts[i:])
			return adjusts[:i]
		}
		o.addTo(s)
	}
	return adjusts
}

// refuseDebt ends the adjusts that would put the bucket deeper into debt than it
// can store, and returns the others with their sums.
func (l *lane) refuseDebt(v plan.View, adjusts []*op, s plan.Sums) ([]*op, plan.Sums) {
	if s.TooDeep(v.Image) == "" {
		return adjusts, s
	}
	kept, fit := make([]*op, 0, len(adjusts)), make(plan.Sums, 0, len(s))
	for _, o := range adjusts {
		with := append(plan.Sums{}, fit...)
		o.addTo(&with)
		if name := with.TooDeep(v.Image); name != "" {
			l.finish(o.alone(), result{err: &failure{reason: failedTooDeep, limit: name}})
			continue
		}
		kept, fit = append(kept, o), with
	}
	return kept, fit
}
