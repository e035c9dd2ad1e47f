package schema

import "strings"

// Crossing is a threshold of a quota's alerts that the use has reached.
type Crossing struct {
	Limit   string
	Percent int
	// Amount is the quota, and Used the used or reserved part of it, both in millitokens.
	Amount, Used int64
}

// CrossingsSince returns the thresholds below 100 that the use of quotas has reached in the image and not in an earlier
// image of the bucket, in the order of limits and percentages. If before is nil, nothing was used there. Grants of the
// window count as less use.
func (m *Image) CrossingsSince(before *Image) (crossed []Crossing) {
	if m.Extras == nil {
		return nil
	}
	for _, text := range m.Extras.Alerts {
		limit, percents, _ := strings.Cut(text, alertSign)
		i := m.Set.Index(limit)
		if i < 0 || !m.Limits[i].IsQuota() || m.Limits[i].Burst > MaxTokens*1000 {
			continue
		}
		q, was := m.Limits[i], Stored{}
		if before != nil {
			if j := before.Set.Index(limit); j >= 0 && before.Limits[j].Window == q.Window && before.Limits[j].Life == q.Life {
				was = before.Limits[j]
			}
		}
		for _, p := range percentagesIn(percents).List() {
			if p < WholeQuota && q.hasUsed(p) && !(was.Burst > 0 && was.hasUsed(p)) {
				crossed = append(crossed, Crossing{Limit: limit, Percent: p, Amount: q.Burst, Used: q.Burst - q.Tokens})
			}
		}
	}
	return crossed
}

// hasUsed reports whether the use of a quota is at least a percentage of it.
func (l *Stored) hasUsed(percent int) bool { return l.Burst-l.Tokens >= partOf(l.Burst, percent) }

// partOf returns a percentage of an amount, rounded up.
func partOf(amount int64, percent int) int64 {
	return (amount*int64(percent) + WholeQuota - 1) / WholeQuota
}
