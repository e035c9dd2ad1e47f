package budget

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

// SweepReport says what a sweep did.
type SweepReport struct {
	Orgs     int // organisations seen to
	Closed   int // days and labels summed into one item, or found so
	Released int // expired holds given back
	Events   int // events delivered that nobody had
}

// Sweep sees to what otherwise happens when somebody asks: it closes the days
// of the last week that are over, gives back expired holds and delivers events
// that were left undelivered. Nothing depends on it. Without ids it takes every
// organisation, scanning the control table.
func (k *Keeper) Sweep(ctx context.Context, orgs ...string) (SweepReport, error) {
	if err := k.usable(ctx); err != nil {
		return SweepReport{}, err
	}
	return k.standing.sweep(ctx, orgs...)
}

func (s *standing) sweep(ctx context.Context, orgs ...string) (SweepReport, error) {
	var report SweepReport
	var errs []error
	if len(orgs) == 0 {
		for org, err := range s.admin.orgs(ctx) {
			if err != nil {
				return report, err
			}
			orgs = append(orgs, org.ID)
		}
	}
	for _, org := range orgs {
		if err := s.sweepOrg(ctx, org, &report); err != nil {
			errs = append(errs, err)
		}
	}
	return report, errors.Join(errs...)
}

func (s *standing) sweepOrg(ctx context.Context, org string, report *SweepReport) error {
	t, err := s.target(ctx, org, "")
	if err != nil {
		return err
	}
	apps, err := s.admin.loadApps(ctx, org)
	if err != nil {
		return failure("Sweep", err)
	}
	report.Orgs++
	scopes := []string{ledger.ScopeKey(ScopeOrg, org, "")}
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		scopes = append(scopes, ledger.ScopeKey(ScopeApp, org, app))
	}
	var errs []error
	for _, scope := range scopes {
		n, _, err := s.ledger.ReleaseExpired(ctx, scope)
		report.Released += n
		for _, err := range []error{err, s.sweepDays(ctx, t, scope, report), s.sweepEvents(ctx, scope, report)} {
			errs = append(errs, failure("Sweep", err))
		}
	}
	for _, app := range slices.Sorted(maps.Keys(apps)) { // find thresholds nobody looked for
		if tenant, err := s.tenants.get(ctx, org, app); err == nil {
			_, err = s.look(ctx, tenant, true)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *standing) sweepDays(ctx context.Context, t *tenant, scope string, report *SweepReport) error {
	now := s.now()
	to := calendar.AddDays(t.calendar.FirstOpen(t.calendar.Day(now), now), -1)
	from := max(calendar.AddDays(to, -6), t.calendar.Day(t.config.CreatedAt))
	if to < from {
		return nil
	}
	labels := map[string]bool{}
	for _, l := range t.labels {
		labels[l] = true
	}
	days, err := s.ledger.SumDays(ctx, t.calendar, scope, labels, from, to)
	s.ledger.CloseAll(ctx, ledger.CollectClosings(from, days.Complete).Found)
	for _, rows := range days.Rows {
		report.Closed += len(rows)
	}
	return err
}

func (s *standing) sweepEvents(ctx context.Context, scope string, report *SweepReport) error {
	if s.opts.OnEvent == nil {
		return nil
	}
	events, delivered, err := s.readEvents(ctx, scope)
	if err != nil {
		return err
	}
	v := &view{done: delivered, later: map[string]time.Time{}}
	for _, e := range events {
		if v.done[e.ID] {
			continue
		}
		if err := s.deliver(ctx, v, e, s.now()); err != nil {
			return err
		}
		if v.done[e.ID] {
			report.Events++
		}
	}
	return nil
}
