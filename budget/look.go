package budget

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

// outlook is where an app stands at an instant.
type outlook struct {
	plan
	day   string
	scope string
	stale bool
	board *ledger.Board
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
func (s *standing) look(ctx context.Context, t *tenant, force bool) (*outlook, error) {
	now := s.now()
	rule := t.calendar.At(now)
	scope := ledger.ScopeKey(rule.Scope, t.org, t.app)
	b := s.ledger.Board(t.org, scope)
	version, known, err := b.Look(ctx, t.need(scope, now), force)
	s.watch(t.org, scope).asked(t.app)
	if err != nil && !known {
		return nil, err
	}
	out := s.outlook(t, b, now, false)
	out.stale = err != nil
	if err == nil {
		s.observe(ctx, t, b, version, now)
	}
	return out, err
}

// outlook plans from the board; stored leaves this process's own writes out.
func (s *standing) outlook(t *tenant, b *ledger.Board, now time.Time, stored bool) *outlook {
	p := t.policy(now)
	day, reset := t.calendar.Day(now), t.calendar.Reset(now)
	byLabel, byLimit := b.Amounts(t.calendar, day, stored, p.ordering, limitsOf(p.limits))
	labels := make([]labelState, len(p.ordering))
	for i, label := range p.ordering {
		_, _, model, ok := t.price(p, label, now)
		labels[i] = labelState{label: label, model: model, priced: ok, quota: p.quotas[label], Amount: byLabel[i]}
		for j, l := range p.limits {
			if l.Label == "" || l.Label == label {
				labels[i].limits = append(labels[i].limits, limitState{
					quota: l, Amount: byLimit[j], resetAt: t.calendar.PeriodEnd(l.Period, day, reset),
				})
			}
		}
	}
	override := t.activeOverride(now)
	if t.calendar.At(now).Enforcement == Hard {
		override = withRoom(labels, p.tight, override)
	}
	return &outlook{
		plan: choose(labels, p.tight, reset, override),
		day:  day, scope: b.Scope, board: b, at: now,
	}
}

// need lists what judging the tenant's labels takes.
func (t *tenant) need(scope string, now time.Time) ledger.Need {
	p := t.policy(now)
	n := ledger.NeedOf(t.calendar, scope, now, p.ordering, t.labels, limitsOf(p.limits))
	if n.Purges = t.purges.org; t.calendar.At(now).Scope == ScopeApp {
		n.Purges += t.purges.app
	}
	return n
}

// scopeNow is the key of the scope an app's spend is counted in now.
func (s *standing) scopeNow(ctx context.Context, org, app string) (string, error) {
	if err := validTarget(org, app); err != nil {
		return "", err
	}
	t, err := s.tenants.get(ctx, org, app)
	if err != nil {
		return "", err
	}
	return ledger.ScopeKey(t.calendar.At(s.now()).Scope, org, app), nil
}
