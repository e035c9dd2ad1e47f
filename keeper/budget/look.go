package budget

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// outlook is the state of an app's budget at an instant.
type outlook struct {
	plan
	day   string
	scope string
	stale bool
	at    time.Time
	board *ledger.Board // source of the spend
	stand ledger.Stand  // state of that board, or an older one
}

// quotaError returns a new *prices.QuotaExceededError with the states of all labels, for an app without room in
// any. Its DecidedAt is the instant of the outlook. It does not check for room.
func (o *outlook) quotaError() *prices.QuotaExceededError {
	err := o.plan.quotaError()
	err.DecidedAt = o.at
	return err
}

// labelState returns the state of the label with a name, with model, quota and spend of today. It returns false
// if the label is not in the app's ordering.
func (o *outlook) labelState(name string) (labelState, bool) {
	i := slices.IndexFunc(o.labels, func(l labelState) bool { return l.label == name })
	if i < 0 {
		return labelState{}, false
	}
	return o.labels[i], true
}

// readOutlook returns the state of an app's budget from fresh cached sums, else from the store; with force also
// if this process has written since. During an outage it returns the last known state, or nil, with the error.
// It watches the app and handles events.
func (s *standing) readOutlook(ctx context.Context, t *tenant, force bool) (*outlook, error) {
	now := s.now()
	b := s.ledger.Board(t.scope())
	version, known, err := b.ReadSums(ctx, t.countersNeeded(now), force)
	s.watchFor(t.org, t.scope()).addApp(t.app)
	if err != nil && !known {
		return nil, err
	}
	stand, ends := b.Stand()
	if ends {
		s.renewBoard(t, b)
	}
	out := s.computeOutlook(t, b, now, false)
	out.stale, out.board, out.stand = err != nil, b, stand
	if err == nil {
		s.findEvents(ctx, t, b, version, now)
	}
	return out, err
}

// renewBoard starts a goroutine that queries the app's sums for today again before they expire, so that no
// caller waits, and then handles events. It ignores a failed query, and does nothing after Close.
func (s *standing) renewBoard(t *tenant, b *ledger.Board) {
	if !s.life.Begin(false) {
		return
	}
	go func() {
		defer s.life.Done()
		ctx, cancel := context.WithTimeout(s.life.Context(), ledger.WriteTimeout)
		defer cancel()
		now := s.now()
		if version, err := b.Renew(ctx, t.countersNeeded(now)); err == nil { // on an error the next caller gets it, once the cached sums are too old
			s.findEvents(ctx, t, b, version, now)
		}
	}()
}

// computeOutlook returns the state of an app's labels at now from the cached sums of b, with the label to
// recommend. With stored it counts only spend read from the store, not own later writes. It sends no request.
func (s *standing) computeOutlook(t *tenant, b *ledger.Board, now time.Time, stored bool) *outlook {
	p, day := t.policy(), t.calendar.Day(now)
	labels := make([]labelState, len(p.ordering))
	for i, spend := range b.SpendOf(day, stored, p.ordering) {
		label := p.ordering[i]
		_, model, ok := t.lookupPrice(p, label, now)
		labels[i] = labelState{label: label, model: model, priced: ok, quota: p.quotas[label], spend: spend}
	}
	return &outlook{
		plan: chooseLabel(labels, p.tight, t.calendar.NextDay(now), t.activeOverride(now)),
		day:  day, scope: b.Scope, at: now,
	}
}

// countersNeeded returns the counters that a recommendation at now needs: those of today in the organisation's
// time zone, of the labels of the app's ordering.
func (t *tenant) countersNeeded(now time.Time) ledger.Need {
	return ledger.NeedOf(t.calendar.Day(now), t.policy().ordering)
}

// scopeNow returns the key of the scope that counts the app's spend: the app's or the organisation's. It uses
// the cached configuration. Bad ids are a *fault.ValidationError; an unknown app is ErrNotFound.
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

// nearFor is how long Stats reports the nearness of an app's quotas after a query.
const nearFor = 10 * time.Minute

// nearness is the used percentage of an app's quotas when the store was last queried.
type nearness struct {
	at, until time.Time // time of that query; end of its day
	percent   map[string]float64
}

// computeNearness returns the used percentage of each label's quota with the instant of the outlook and the end
// of its day. Labels with a quota of 0 are left out.
func (o *outlook) computeNearness() *nearness {
	n := &nearness{at: o.at, until: o.resetAt, percent: map[string]float64{}}
	for _, l := range o.labels {
		if l.quota > 0 {
			n.percent[l.label] = l.spend.PercentOf(l.quota)
		}
	}
	return n
}

// isRecent reports whether the nearness is younger than nearFor and its day has not ended. It is false for nil.
func (n *nearness) isRecent(now time.Time) bool {
	return n != nil && now.Sub(n.at) < nearFor && now.Before(n.until)
}
