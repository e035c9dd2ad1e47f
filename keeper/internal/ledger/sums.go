package ledger

import "github.com/dynalimit/dynalimit/internal/money"

// SpendOf returns the cached spend of each label on a day, in the order of labels, in pico-dollars; an unread
// label has 0. With stored it leaves out this process's writes that no query has read. It sends no request.
func (b *Board) SpendOf(day string, stored bool, labels []string) []money.Picos {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]money.Picos, len(labels))
	for i, label := range labels {
		ref := LabelDay(b.Scope, label, day)
		var sum Counter
		for _, row := range b.rows[ref] {
			sum = sum.Add(row)
		}
		out[i] = sum.Spend()
		if o := b.own[ref]; o != nil && !stored {
			out[i] = out[i].Add(o.before).Add(o.since)
		}
	}
	return out
}
