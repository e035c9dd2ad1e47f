package budget

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// span is days from one to another, both included; none when empty.
type span struct{ from, to string }

func (s span) join(o span) span {
	switch {
	case s == span{}:
		return o
	case o == span{}:
		return s
	}
	return span{min(s.from, o.from), max(s.to, o.to)}
}

func (s span) within(o span) bool {
	return s == span{} || o != span{} && o.from <= s.from && s.to <= o.to
}

// abroadDays is what days of a running week or month cost that were counted
// under the organisation's other scope, by day and label.
type abroadDays struct {
	span
	labels map[string]bool
	days   map[string]map[string]amount
	read   time.Time
}

// readAbroad sums those days over every key of the other scope. They are over,
// so what was read is good for Options.ConfigTTL.
func (k *Keeper) readAbroad(ctx context.Context, scope string, n need, old abroadDays, now time.Time) (abroadDays, error) {
	age := now.Sub(old.read)
	covers := n.abroad.within(old.span) && need{labels: n.labels}.within(need{labels: old.labels})
	if n.abroad == (span{}) || covers && age >= 0 && age < k.opts.ConfigTTL {
		return old, nil
	}
	scopes, err := k.otherScopes(ctx, scope)
	if err != nil {
		return old, err
	}
	out := abroadDays{span: n.abroad, labels: maps.Clone(n.labels), days: map[string]map[string]amount{}, read: now}
	c := &closings{since: n.abroad.from}
	var mu sync.Mutex
	err = parallel(ctx, slices.Values(scopes), func(ctx context.Context, other string) error {
		days, err := k.closedDays(ctx, n.calendar, other, n.labels, n.abroad.from, n.abroad.to, c)
		mu.Lock()
		defer mu.Unlock()
		for day, rows := range days {
			if out.days[day] == nil {
				out.days[day] = map[string]amount{}
			}
			for label, row := range rows {
				out.days[day][label] = out.days[day][label].add(row.amount())
			}
		}
		return err
	})
	if err != nil {
		return old, err
	}
	k.closeBehind(c)
	return out, nil
}

// otherScopes are the keys of the scope that a key is not of: the organisation's
// for an app's, all its apps' for the organisation's.
func (k *Keeper) otherScopes(ctx context.Context, scope string) ([]string, error) {
	org := orgOf(scope)
	whole := scopeKey(ScopeOrg, org, "")
	if scope != whole {
		return []string{whole}, nil
	}
	apps, err := k.loadApps(ctx, org)
	if err != nil {
		return nil, err
	}
	scopes := make([]string, 0, len(apps))
	for app := range apps {
		scopes = append(scopes, scopeKey(ScopeApp, org, app))
	}
	return scopes, nil
}
