package budget

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// outlook is where an app stands at an instant.
type outlook struct {
	plan
	day   string
	scope string
	stale bool
	at    time.Time
	board *ledger.Board // it is planned from
	stand ledger.Stand  // of that, or older
}

// exceeded is the error when nothing has room now.
func (o *outlook) exceeded() *prices.QuotaExceededError {
	err := o.plan.exceeded()
	err.DecidedAt = o.at
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
	b := s.ledger.Board(t.scope())
	version, known, err := b.Look(ctx, t.need(now), force)
	s.watch(t.org, t.scope()).asked(t.app)
	if err != nil && !known {
		return nil, err
	}
	stand, ends := b.Stand()
	if ends {
		s.renew(t, b)
	}
	out := s.outlook(t, b, now, false)
	out.stale, out.board, out.stand = err != nil, b, stand
	if err == nil {
		s.observe(ctx, t, b, version, now)
	}
	return out, err
}

// renew asks the store for what is about to be too old, so that no caller of an app in use
// waits for it, and sees to what that brings to light.
func (s *standing) renew(t *tenant, b *ledger.Board) {
	if !s.life.Begin(false) {
		return
	}
	go func() {
		defer s.life.Done()
		ctx, cancel := context.WithTimeout(s.life.Context(), ledger.WriteTimeout)
		defer cancel()
		now := s.now()
		if version, err := b.Renew(ctx, t.need(now)); err == nil { // else the next caller hears of it, when what is known is too old
			s.observe(ctx, t, b, version, now)
		}
	}()
}

// outlook plans from the board; stored leaves this process's own writes out.
func (s *standing) outlook(t *tenant, b *ledger.Board, now time.Time, stored bool) *outlook {
	p, day := t.policy(), t.calendar.Day(now)
	labels := make([]labelState, len(p.ordering))
	for i, spend := range b.Spent(day, stored, p.ordering) {
		label := p.ordering[i]
		_, model, ok := t.price(p, label, now)
		labels[i] = labelState{label: label, model: model, priced: ok, quota: p.quotas[label], spend: spend}
	}
	return &outlook{
		plan: choose(labels, p.tight, t.calendar.Reset(now), t.activeOverride(now)),
		day:  day, scope: b.Scope, at: now,
	}
}

// need lists what judging the tenant's labels takes.
func (t *tenant) need(now time.Time) ledger.Need {
	return ledger.NeedOf(t.calendar.Day(now), t.policy().ordering)
}

// scopeNow is the key of the scope an app's spend is counted in.
func (s *standing) scopeNow(ctx context.Context, org, app string) (string, error) {
	if err := validTarget(org, app); err != nil {
		return "", err
	}
	t, err := s.tenants.get(ctx, org, app)
	if err != nil {
		return "", err
	}
	return t.scope(), nil
}

// nearFor is how long the quotas of an app are told after a query of them.
const nearFor = 10 * time.Minute

// nearness is how near an app was to its quotas when the store was queried.
type nearness struct {
	at, until time.Time // of that query; the end of its day
	percent   map[string]float64
}

// nearness is how much of its quotas each label has used.
func (o *outlook) nearness() *nearness {
	n := &nearness{at: o.at, until: o.resetAt, percent: map[string]float64{}}
	for _, l := range o.labels {
		if l.quota > 0 {
			n.percent[l.label] = l.spend.PercentOf(l.quota)
		}
	}
	return n
}

// holds reports whether the nearness is still worth telling.
func (n *nearness) holds(now time.Time) bool {
	return n != nil && now.Sub(n.at) < nearFor && now.Before(n.until)
}
