package budget

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// SweepReport says what a sweep did.
type SweepReport struct {
	Orgs   int `json:"orgs"`   // organisations seen to
	Closed int `json:"closed"` // days and labels summed into one item, or found so
	Events int `json:"events"` // events delivered that nobody had
	// Deletions is how many deletions were begun and are not complete, with which
	// FinishDeletions goes on; 0 where the sweep was of some organisations alone.
	Deletions int `json:"deletions"`
}

// sweeper sees to what nobody asked for.
type sweeper struct {
	standing *standing
	days     *days
}

func (s *sweeper) sweep(ctx context.Context, orgs ...string) (SweepReport, error) {
	var report SweepReport
	var errs []error
	if len(orgs) == 0 {
		var err error
		if orgs, err = s.survey(ctx, &report); err != nil {
			return report, failure("Sweep", err)
		}
	}
	for _, org := range orgs {
		if err := s.sweepOrg(ctx, org, &report); err != nil {
			errs = append(errs, err)
		}
	}
	return report, errors.Join(errs...)
}

// survey finds the organisations, and counts the deletions that are not complete.
func (s *sweeper) survey(ctx context.Context, report *SweepReport) (orgs []string, err error) {
	for item, err := range s.days.admin.desk.scan(ctx, orgPrefix, rootsAndNotes, false) {
		if err != nil {
			return nil, err
		}
		key := store.KeyOf(item)
		if key.SK != ledger.RootSK {
			report.Deletions++
			continue
		}
		id := key.PK[len(orgPrefix):]
		switch o, err := decodeOrg(id, item); {
		case deletedOrg(o, err) || errors.Is(err, ErrNotFound):
		default: // one that cannot be served says so when it is swept
			orgs = append(orgs, id)
		}
	}
	return orgs, nil
}

func (s *sweeper) sweepOrg(ctx context.Context, org string, report *SweepReport) error {
	t, err := s.days.target(ctx, org, "")
	if err != nil {
		return err
	}
	apps, err := s.days.admin.items.loadApps(ctx, org)
	if err != nil {
		return failure("Sweep", err)
	}
	report.Orgs++
	scopes := []string{ledger.OrgScope(org)}
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		scopes = append(scopes, ledger.AppScope(org, app))
	}
	var errs []error
	for _, scope := range scopes {
		for _, err := range []error{s.sweepDays(ctx, t, scope, report), s.sweepEvents(ctx, scope, report)} {
			errs = append(errs, failure("Sweep", err))
		}
	}
	for _, app := range slices.Sorted(maps.Keys(apps)) { // find thresholds nobody looked for
		if tenant, err := s.standing.tenants.get(ctx, org, app); err == nil {
			_, err = s.standing.look(ctx, tenant, true)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *sweeper) sweepDays(ctx context.Context, t *tenant, scope string, report *SweepReport) error {
	now := s.standing.now()
	to := calendar.AddDays(t.calendar.FirstOpen(t.calendar.Day(now), now), -1)
	from := max(calendar.AddDays(to, -6), t.calendar.Day(t.config.CreatedAt))
	if to < from {
		return nil
	}
	labels := map[string]bool{}
	for _, l := range t.labels {
		labels[l] = true
	}
	days, err := s.standing.ledger.SumDays(ctx, t.calendar, scope, labels, from, to)
	s.standing.ledger.CloseAll(ctx, ledger.CollectClosings(from, days.Complete).Found)
	for _, rows := range days.Rows {
		report.Closed += len(rows)
	}
	return err
}

func (s *sweeper) sweepEvents(ctx context.Context, scope string, report *SweepReport) error {
	if s.standing.opts.OnEvent == nil {
		return nil
	}
	events, delivered, err := s.standing.readEvents(ctx, scope)
	if err != nil {
		return err
	}
	v := &view{done: delivered, later: map[string]time.Time{}}
	for _, e := range events {
		if v.done[e.ID] {
			continue
		}
		if err := s.standing.deliver(ctx, v, e, s.standing.now()); err != nil {
			return err
		}
		if v.done[e.ID] {
			report.Events++
		}
	}
	return nil
}
