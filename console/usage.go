package console

import (
	"iter"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

const (
	// shownDays and shownHours are the lengths of charts.
	shownDays, shownHours = 14, 24
	milli                 = 1000
)

// spending is the closed usage of one limit over windows: in whole tokens, or micro-dollars.
type spending struct {
	starts []time.Time
	values []int64
}

// windowsBack returns the beginnings of the last n windows that end at the window after last, oldest first.
func windowsBack(w aggregator.Window, last time.Time, n int) []time.Time {
	starts := make([]time.Time, n)
	for i := range starts {
		if back := n - 1 - i; w == aggregator.Day {
			starts[i] = last.AddDate(0, 0, -back)
		} else {
			starts[i] = last.Add(time.Duration(-back) * time.Hour)
		}
	}
	return starts
}

// midnight is the beginning of the day of UTC.
func midnight(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// usageOf reads closed usage once for all visitors. The windows end before the first open hour, because sums of open
// hours cost a read for each entity.
func (v *visit) usageOf(key string, w aggregator.Window, from, to time.Time, read func(aggregator.Query) iter.Seq2[aggregator.Usage, error]) ([]aggregator.Usage, error) {
	if v.usage == nil || !from.Before(to) {
		return nil, nil
	}
	return fetch(v, "usage "+key+" "+string(w)+" "+from.Format(time.RFC3339), keepUsage, 2, func() (all []aggregator.Usage, err error) {
		for u, err := range read(aggregator.Query{From: from, To: to, Window: w}) {
			if err != nil {
				return nil, err
			}
			if len(all) > mostUsage {
				break
			}
			all = append(all, u)
		}
		return all, nil
	})
}

// mostUsage bounds the usage of a page: a year of days, of many resources.
const mostUsage = 10_000

// along sorts the usage of a resource's limit into windows.
func along(all []aggregator.Usage, resource, limit string, starts []time.Time) spending {
	s := spending{starts, make([]int64, len(starts))}
	for _, u := range all {
		if u.Resource != resource {
			continue
		}
		i := slices.IndexFunc(starts, func(t time.Time) bool { return t.Equal(u.Start) })
		for _, l := range u.Limits {
			if i >= 0 && l.Limit == limit {
				s.values[i] += l.Consumed / milli
			}
		}
	}
	return s
}

// dayLabels and hourLabels name windows.
func dayLabels(starts []time.Time) (labels []string) {
	for _, t := range starts {
		labels = append(labels, t.Format("Jan 2"))
	}
	return labels
}

func hourLabels(starts []time.Time, zone *time.Location) (labels []string) {
	for _, t := range starts {
		labels = append(labels, t.In(zone).Format("15:04"))
	}
	return labels
}
