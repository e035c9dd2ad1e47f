package dynalimit

import "github.com/dynalimit/dynalimit/internal/schema"

const (
	// maxSum bounds what one write gives back, or charges, of one limit: the sums
	// of a write, beside a credit of 2^62, stay within 64 bits.
	maxSum = 1 << 59
	// maxDebt bounds the debt that a bucket stores, in millitokens: 2.3·10^15
	// tokens. Its numbers stay within 64 bits whoever charges beside.
	maxDebt = 1 << 61
)

// summed adds as many adjusts to the sums as fit, in their order, and returns
// them; the others are left for the next write.
func (l *lane) summed(adjusts []*op, s *sums) []*op {
	for i, o := range adjusts {
		if o.overflows(*s) {
			l.requeue(adjusts[i:])
			return adjusts[:i]
		}
		o.addTo(s)
	}
	return adjusts
}

// overflows reports whether an adjust makes a sum larger than a write carries.
func (o *op) overflows(s sums) bool {
	for _, a := range o.amounts {
		carried := s.of(a.name)
		if a.amount > maxSum-carried.Adjust || -a.amount > maxSum-carried.Back {
			return true
		}
	}
	return false
}

// refuseDebt ends the adjusts that would put the bucket deeper into debt than it
// can store, and returns the others with their sums.
func (l *lane) refuseDebt(v view, adjusts []*op, s sums) ([]*op, sums) {
	if tooDeep(v.image, s) == "" {
		return adjusts, s
	}
	kept, fit := make([]*op, 0, len(adjusts)), make(sums, 0, len(s))
	for _, o := range adjusts {
		with := append(sums{}, fit...)
		o.addTo(&with)
		if name := tooDeep(v.image, with); name != "" {
			l.finish(o.alone(), result{err: invalid("amounts["+name+"]",
				"puts the bucket of entity %q on resource %q more than %d tokens into debt, which is the most it stores; correct the amount, or delete the bucket's item, which forgives its debt",
				l.entity, l.resource, int64(maxDebt)/milli)})
			continue
		}
		kept, fit = append(kept, o), with
	}
	return kept, fit
}

// tooDeep names a limit that the adjusts of the sums put deeper into debt than
// can be stored, "" for none.
func tooDeep(m *schema.Image, s sums) string {
	if m == nil {
		return ""
	}
	for _, n := range s {
		if i := m.Set.Index(n.name); i >= 0 && n.Adjust > 0 && m.Limits[i].Tokens < n.Adjust-maxDebt {
			return n.name
		}
	}
	return ""
}

// bound lets a charge that is deep in debt land only where what it leaves can be
// stored, whoever else charges meanwhile.
func (o *outcome) bound(tokens, back int64) {
	if o.out > 0 && !o.update.Full && tokens < o.out-maxDebt/2 {
		o.raiseLow(o.out - back - maxDebt)
	}
}
