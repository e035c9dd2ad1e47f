package usage

import "github.com/dynalimit/dynalimit/internal/schema"

// Expect names a series that may get a sum.
func (s *Sums) Expect(series schema.UsageSeries) {
	series.Window = s.Window
	s.before[series] += 0
}

// Parts are what the sums hold so far, for others to Resume, with the series that are known
// only by name.
func (s *Sums) Parts() []schema.UsagePart {
	var all []schema.UsagePart
	for series := range s.Names() {
		p := schema.UsagePart{Counted: s.before[series] + int64(len(s.counted[series])), Named: s.sums[series] == nil}
		if p.UsageSum = NewTally(); !p.Named {
			p.UsageSum = *s.sums[series]
		}
		p.UsageSeries, p.Start = series, s.Start
		all = append(all, p)
	}
	return all
}

// Resume goes on from parts. Entities that are counted after it are none of those that the
// parts have counted.
func (s *Sums) Resume(parts []schema.UsagePart) {
	for _, p := range parts {
		s.before[p.UsageSeries] = p.Counted
		if !p.Named {
			sum := NewTally()
			sum.UsageSeries, sum.Start, sum.Entities = p.UsageSeries, s.Start, p.Entities
			for i, to := range amounts(&sum) {
				plus(to, amounts(&p.UsageSum)[i])
			}
			s.sums[p.UsageSeries] = &sum
		}
	}
}

// Names are the series of all sums, and those that are known only by name.
func (s *Sums) Names() map[schema.UsageSeries]bool {
	all := map[schema.UsageSeries]bool{}
	for series := range s.sums {
		all[series] = true
	}
	for series := range s.counted {
		all[series] = true
	}
	for series := range s.before {
		all[series] = true
	}
	return all
}
