package console

import (
	"cmp"
	"iter"
	"maps"
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

// windowsBack returns the starts of n days or hours, the oldest first. The latest one starts at last.
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

// midnight returns the beginning of the day of UTC that contains at.
func midnight(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// readUsage returns the usage that read returns for the windows between from and to, at most mostUsage, which
// visitors share for keepUsage under key. It does not bound the windows: the caller ends them before the first
// open hour. It returns nil without a reader.
func (v *visit) readUsage(key string, w aggregator.Window, from, to time.Time, read func(aggregator.Query) iter.Seq2[aggregator.Usage, error]) ([]aggregator.Usage, error) {
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

// usageByWindow returns the usage of a resource's limit in each window of starts, in whole tokens or
// micro-dollars; 0 without usage. It skips windows that are not in starts.
func usageByWindow(all []aggregator.Usage, resource, limit string, starts []time.Time) spending {
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

// modelPart is the part of a limit's usage by one model, in thousandths of tokens or micro-dollars.
type modelPart struct {
	model string
	n     int64
}

// partsByModel returns a limit's usage by model, sorted by name, in thousandths of tokens or micro-dollars. The
// rest follows as "others" unless it is 0. A limit that is not counted by model is one part with an empty name.
func partsByModel(l aggregator.LimitUsage) (parts []modelPart) {
	if len(l.ByModel) == 0 {
		return []modelPart{{"", l.Consumed}}
	}
	rest := l.Consumed
	for _, model := range slices.Sorted(maps.Keys(l.ByModel)) {
		parts, rest = append(parts, modelPart{model, l.ByModel[model]}), rest-l.ByModel[model]
	}
	if rest != 0 {
		parts = append(parts, modelPart{others, rest})
	}
	return parts
}

// stackModels returns the use of a limit in each window of starts, by model if it is of money: the four largest
// and the others. Without counters by model it returns the whole alone. Of several limits of money a bucket
// counts one by model, which need not be this one.
func stackModels(all []aggregator.Usage, resource, limit string, money bool, starts []time.Time) []series {
	whole := usageByWindow(all, resource, limit, starts)
	byModel, sums := map[string][]int64{}, map[string]int64{}
	for _, u := range all {
		i := slices.IndexFunc(starts, func(t time.Time) bool { return t.Equal(u.Start) })
		if i < 0 || u.Resource != resource || !money {
			continue
		}
		for _, l := range u.Limits {
			for model, n := range l.ByModel {
				if byModel[model] == nil {
					byModel[model] = make([]int64, len(starts))
				}
				byModel[model][i] += n / milli
				sums[model] += n / milli
			}
		}
	}
	if len(sums) == 0 {
		return []series{{limit, whole.values}}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(x, y string) int { return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y)) })
	names = names[:min(len(names), mostModels)]
	slices.Sort(names) // so that charts of one page give a model one colour
	rest := slices.Clone(whole.values)
	stacks := make([]series, 0, mostModels+1)
	for _, name := range names {
		for i, n := range byModel[name] {
			rest[i] -= n
		}
		stacks = append(stacks, series{name, byModel[name]})
	}
	if slices.ContainsFunc(rest, func(n int64) bool { return n > 0 }) {
		stacks = append(stacks, series{others, rest})
	}
	return stacks
}

// hoursOfDay returns copies of the usage of hours from the start of day on, with that start in place of their
// own. It leaves out earlier hours.
func hoursOfDay(hours []aggregator.Usage, day time.Time) (all []aggregator.Usage) {
	for _, u := range hours {
		if !u.Start.Before(day) {
			u.Start = day
			all = append(all, u)
		}
	}
	return all
}

// addOpenUse raises the sum of the last window of stacks to used, the use of its quota with the open hour; a
// larger sum stays. The difference goes to the others, which have no model. It returns stacks, and may change
// its values in place.
func addOpenUse(stacks []series, used int64) []series {
	last := len(stacks[0].values) - 1
	for _, s := range stacks {
		used -= s.values[last]
	}
	if used <= 0 {
		return stacks
	}
	if end := stacks[len(stacks)-1]; len(stacks) == 1 && end.name != others || end.name == others {
		end.values[last] += used
		return stacks
	}
	rest := make([]int64, last+1)
	rest[last] = used
	return append(stacks, series{others, rest})
}

// mostModels is how many models have a colour of their own.
const mostModels = 4

// dayLabels returns a label for each start of a day, such as Jan 2.
func dayLabels(starts []time.Time) (labels []string) {
	for _, t := range starts {
		labels = append(labels, t.Format("Jan 2"))
	}
	return labels
}

// hourLabels returns a label for each start of an hour, such as 15:04, in zone.
func hourLabels(starts []time.Time, zone *time.Location) (labels []string) {
	for _, t := range starts {
		labels = append(labels, t.In(zone).Format("15:04"))
	}
	return labels
}
