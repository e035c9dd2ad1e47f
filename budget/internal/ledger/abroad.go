package ledger

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// otherScopeDays is what was spent on days of a running week or month that were counted
// under the organisation's other scope, by day and label.
type otherScopeDays struct {
	span
	labels map[string]bool
	days   map[string]map[string]Amount
	read   time.Time
}

// readOtherScope sums those days over every key of the other scope. The days are over, so
// what was read stays good for Ledger.Settled.
func (l *Ledger) readOtherScope(ctx context.Context, scope string, n Need, old otherScopeDays, now time.Time) (otherScopeDays, error) {
	age := now.Sub(old.read)
	covers := n.otherScope.within(old.span) && Need{labels: n.labels}.within(Need{labels: old.labels})
	if n.otherScope == (span{}) || covers && age >= 0 && age < l.Settled {
		return old, nil
	}
	scopes, err := l.otherScopes(ctx, scope)
	if err != nil {
		return old, err
	}
	out := otherScopeDays{span: n.otherScope, labels: maps.Clone(n.labels), days: map[string]map[string]Amount{}, read: now}
	c := CollectClosings(n.otherScope.from, nil)
	var mu sync.Mutex
	err = store.Each(ctx, slices.Values(scopes), func(ctx context.Context, other string) error {
		days, err := l.SumDays(ctx, n.calendar, other, n.labels, n.otherScope.from, n.otherScope.to)
		mu.Lock()
		defer mu.Unlock()
		c.Add(days.Complete...)
		for day, rows := range days.Rows {
			if out.days[day] == nil {
				out.days[day] = map[string]Amount{}
			}
			for label, row := range rows {
				out.days[day][label] = out.days[day][label].add(row.Amount())
			}
		}
		return err
	})
	if err != nil {
		return old, err
	}
	l.CloseBehind(c)
	return out, nil
}

// otherScopes are the keys of the other scope: the organisation's key for an app's, and
// the keys of all its apps for the organisation's.
func (l *Ledger) otherScopes(ctx context.Context, scope string) ([]string, error) {
	org := orgOf(scope)
	whole := ScopeKey(calendar.ScopeOrg, org, "")
	if scope != whole {
		return []string{whole}, nil
	}
	apps, err := l.Apps(ctx, org)
	if err != nil {
		return nil, err
	}
	scopes := make([]string, 0, len(apps))
	for _, app := range apps {
		scopes = append(scopes, ScopeKey(calendar.ScopeApp, org, app))
	}
	return scopes, nil
}
