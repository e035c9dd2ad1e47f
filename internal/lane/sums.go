package lane

import "github.com/dynalimit/dynalimit/internal/plan"

// addAdjusts adds adjusts to the sums in their order, as many as one write can carry,
// and returns those. The others go back into the queue.
func (l *Lane) addAdjusts(adjusts []*Op, s *plan.Sums) []*Op {
	for i, o := range adjusts {
		if s.Overflows(o.Amounts) {
			l.requeue(adjusts[i:])
			return adjusts[:i]
		}
		o.addTo(s)
	}
	return adjusts
}

// refuseDebt ends the adjusts that would put the bucket deeper into debt than it can
// store. It returns the others with their sums.
func (l *Lane) refuseDebt(v plan.View, adjusts []*Op, s plan.Sums) ([]*Op, plan.Sums) {
	if s.TooDeep(v.Image) == "" {
		return adjusts, s
	}
	kept, fit := make([]*Op, 0, len(adjusts)), make(plan.Sums, 0, len(s))
	for _, o := range adjusts {
		with := append(plan.Sums{}, fit...)
		o.addTo(&with)
		if name := with.TooDeep(v.Image); name != "" {
			l.finish(o.asList(), Result{Err: &Failure{Reason: TooDeep, Limit: name}})
			continue
		}
		kept, fit = append(kept, o), with
	}
	return kept, fit
}
