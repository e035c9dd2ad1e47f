package config

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/sources"
)

// Raise is a raise of a limit, with its source.
type Raise struct {
	schema.ConfigRaise
	// Source stores the raise.
	Source sources.Source
}

// addRaises appends the raises of a source to v. Sources come from the most specific one on.
func (v *Verdict) addRaises(source sources.Source, raises []schema.ConfigRaise) {
	for _, r := range raises {
		v.Raises = append(v.Raises, Raise{r, source})
	}
}

// dropIdleRaises removes from v.Raises those that raise no limit in force. A source can raise its own limits
// and those of less specific sources.
func (v *Verdict) dropIdleRaises() {
	v.Raises = slices.DeleteFunc(v.Raises, func(r Raise) bool {
		return !slices.ContainsFunc(v.Limits, func(l Limit) bool {
			_, raised := r.ApplyTo(l.ConfigLimit)
			return raised && rankOf(r.Source) <= rankOf(l.Source)
		})
	})
}

// rankOf returns the place of a source in the order of sources, 0 for the most specific. It is -1 for Options
// and WithLimits, which store no items.
func rankOf(source sources.Source) int {
	items := new(Items).bySource()
	return slices.IndexFunc(items[:], func(l sourceItem) bool { return l.source == source })
}

// ApplyTo returns a limit with the raise's capacity, the refill in proportion, and a burst of at least the
// capacity. It ignores the end of the raise. It returns the limit unchanged and false for quotas, slots,
// another name or period, a large enough limit, and too much refill.
func (r Raise) ApplyTo(l schema.ConfigLimit) (schema.ConfigLimit, bool) {
	if l.Name != r.Name || l.Window != "" || l.IsSlots() || l.PeriodSeconds() != r.PeriodSeconds || l.Capacity >= r.Capacity || l.Capacity < 1 || l.RefillAmount < 1 || r.Capacity > schema.MaxTokens {
		return l, false
	}
	high, low := bits.Mul64(uint64(l.RefillAmount), uint64(r.Capacity))
	if high >= uint64(l.Capacity) {
		return l, false
	}
	amount, _ := bits.Div64(high, low, uint64(l.Capacity))
	if amount > schema.MaxTokens {
		return l, false
	}
	l.Capacity, l.RefillAmount, l.Burst = r.Capacity, int64(amount), max(l.Burst, r.Capacity)
	return l, true
}

// EndsMS returns the end of the raise in Unix ms.
func (r Raise) EndsMS() int64 { return r.Until * 1000 }

// At returns the limits in force at an instant, in Unix ms: each with its largest raise that has not ended.
// raised are those raises. ends is the earliest end of a raise, in Unix ms; 0 without raises.
func (v *Verdict) At(ms int64) (limits []Limit, raised []Raise, ends int64) {
	limits = slices.Clone(v.Limits)
	for i := range limits {
		stored := limits[i].ConfigLimit
		var by *Raise
		for j := range v.Raises {
			r := &v.Raises[j]
			if to, raises := r.ApplyTo(stored); raises && ms < r.EndsMS() && to.Capacity > limits[i].Capacity {
				limits[i].ConfigLimit, by = to, r
			}
		}
		if by != nil {
			raised, ends = append(raised, *by), min(cmp.Or(ends, by.EndsMS()), by.EndsMS())
		}
	}
	return limits, raised, ends
}
