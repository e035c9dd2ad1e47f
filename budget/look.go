package budget

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// outlook is where an app stands at an instant.
type outlook struct {
	plan
	day   string
	scope string
	stale bool
	board *board
	at    time.Time
}

// exceeded is the error when nothing has room now.
func (o *outlook) exceeded() *QuotaExceededError {
	err := o.plan.exceeded()
	err.made = o.at
	return err
}

// label finds the state of one label of the ordering.
func (o *outlook) label(name string) (labelState, bool) {
	i := slices.IndexFunc(o.labels, func(l labelState) bool { return l.label == name })
	if i < 0 {
		return labelState{}, false
	}
	return o.labels[i], true
}

// look sees where an app stands, from what is known if that is recent, else
// from the store. When the store does not answer, the last view comes with the
// error, and on a new day, of which nothing is known, one with nothing spent on
// that day. What a query brings to light, events and the sticky record, is seen
// to before it returns.
func (k *Keeper) look(ctx context.Context, t *tenant, force bool) (*outlook, error) {
	now := k.now()
	rule := t.calendar.At(now)
	scope := scopeKey(rule.Scope, t.org, t.app)
	b := k.boardOf(t.org, scope)
	n := t.need(scope, now)
	err := b.ensure(ctx, n, force)
	b.mu.Lock()
	b.apps[t.app] = true
	known, version := n.within(b.has) || unavailable(err) && b.has.day != "" && b.has.day < n.day, b.version
	b.mu.Unlock()
	if err != nil && !known {
		return nil, err
	}
	out := k.outlook(t, b, now, false)
	out.stale = err != nil
	if err == nil {
		k.observe(ctx, t, b, version, now)
	}
	return out, err
}

// outlook plans from the board; stored leaves this process's own writes out.
func (k *Keeper) outlook(t *tenant, b *board, now time.Time, stored bool) *outlook {
	p := t.policy(now)
	day, reset := t.calendar.Day(now), t.calendar.Reset(now)
	labels := make([]labelState, len(p.ordering))
	b.mu.Lock()
	for i, label := range p.ordering {
		_, _, model, ok := t.price(p, label, now)
		labels[i] = labelState{
			label: label, model: model, priced: ok, quota: p.quotas[label],
			amount: b.dayAmount(label, day, stored),
		}
		for _, l := range p.limits {
			if l.Label == "" || l.Label == label {
				labels[i].limits = append(labels[i].limits, limitState{
					quota: l, amount: b.limitAmount(t, l, day, stored), resetAt: t.calendar.PeriodEnd(l.Period, day, reset),
				})
			}
		}
	}
	b.mu.Unlock()
	override := t.activeOverride(now)
	if t.calendar.At(now).Enforcement == Hard {
		override = withRoom(labels, p.tight, override)
	}
	return &outlook{
		plan: choose(labels, p.tight, reset, override),
		day:  day, scope: b.scope, board: b, at: now,
	}
}

// need lists what judging the tenant's labels takes.
func (t *tenant) need(scope string, now time.Time) need {
	p, day, rule := t.policy(now), t.calendar.Day(now), t.calendar.At(now)
	n := need{day: day, from: day, labels: map[string]bool{}, refs: map[store.Key]bool{}, calendar: t.calendar}
	for _, label := range p.ordering {
		n.labels[label] = true
	}
	first := day // of this scope that is summed by days
	for _, l := range p.limits {
		kind := l.kind()
		if l.Label == "" {
			for _, known := range t.labels {
				n.labels[known] = true
			}
		} else {
			n.labels[l.Label] = true
		}
		if rule.Counts(kind) {
			n.refs[limitRef(scope, l, day)] = true
		}
		for _, d := range t.calendar.Uncounted(l.kind(), day) {
			if t.calendar.Of(d).Scope != rule.Scope {
				n.abroad = n.abroad.join(span{d, d})
			} else {
				first = min(first, d)
			}
		}
	}
	if first < day {
		n.from = max(first, t.calendar.FirstOpen(day, now))
	}
	if first < n.from {
		n.closed = first
	}
	return n
}

// limitRef is the counter hard mode keeps for a limit.
func limitRef(scope string, l PeriodQuota, day string) store.Key {
	pk := totalPK(scope)
	if l.Label != "" {
		pk = labelPK(scope, l.Label)
	}
	return store.Key{PK: pk, SK: shardPrefix(l.Period, day)}
}

// limitAmount is what counts against a limit: its counter in hard mode, and
// the days whose spend is in no such counter. It needs the board's lock.
func (b *board) limitAmount(t *tenant, l PeriodQuota, day string, stored bool) amount {
	kind := l.kind()
	var sum amount
	if t.calendar.Of(day).Counts(kind) {
		sum = b.amount(limitRef(b.scope, l, day), stored)
	}
	return sum.add(b.uncountedAmount(t, l, day, stored))
}

// uncountedAmount sums the period's days that its counter does not have. Those
// counted under the other scope are taken whole: an organisation's limit has all
// its apps' spend, and an app's has what the organisation spent while nobody
// counted by app. It needs the board's lock.
func (b *board) uncountedAmount(t *tenant, l PeriodQuota, day string, stored bool) amount {
	var sum amount
	labels := []string{l.Label}
	if l.Label == "" {
		labels = slices.Sorted(maps.Keys(b.has.labels))
	}
	scope := t.calendar.Of(day).Scope
	for _, d := range t.calendar.Uncounted(l.kind(), day) {
		away := t.calendar.Of(d).Scope != scope
		for _, label := range labels {
			if away {
				sum = sum.add(b.abroad.days[d][label])
			} else {
				sum = sum.add(b.dayAmount(label, d, stored))
			}
		}
	}
	return sum
}
