package budget

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// SweepReport is the result of a sweep.
type SweepReport struct {
	Orgs   int `json:"orgs"`   // organisations with work to do
	Closed int `json:"closed"` // days and labels with a stored total now
	Events int `json:"events"` // pending events that were delivered
}

// sweptDays is the number of past days that a sweep closes.
const sweptDays = 7

// sweeper does the work of later calls in advance.
type sweeper struct {
	standing *standing
	days     *days

	mu   sync.Mutex
	done map[store.Key]bool // closed days by day and scope; an empty scope means that all scopes are closed for good
}

// sweptScope is the part of a sweep in one scope.
type sweptScope struct {
	org, app string
	days     map[string]map[string]bool // marked labels by day; nil means all labels and days
}

// sweepAll closes past days, delivers pending events and finds reached thresholds, in scopes with records on
// open days or in all scopes of orgs. It sums the reports and joins the errors of all scopes, without those of
// deleted organisations.
func (s *sweeper) sweepAll(ctx context.Context, orgs ...string) (SweepReport, error) {
	scopes, open, err := map[string]*sweptScope{}, map[string]bool{}, error(nil)
	if len(orgs) == 0 {
		open, err = s.findScopes(ctx, scopes)
	}
	var errs []error
	for _, org := range orgs {
		errs = append(errs, s.addOrg(ctx, org, scopes))
	}
	if err != nil {
		return SweepReport{}, wrapFailure("Sweep", err)
	}
	var report SweepReport
	var mu sync.Mutex // guards report, errs, seen and open
	seen := map[string]bool{}
	_ = store.Each(ctx, maps.Keys(scopes), func(ctx context.Context, scope string) error {
		one, pending, err := s.sweepScope(ctx, scope, scopes[scope])
		mu.Lock()
		defer mu.Unlock()
		if err == nil || !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
		}
		if err == nil {
			seen[scopes[scope].org] = true
		}
		for _, day := range pending {
			delete(open, day)
		}
		report.Closed, report.Events = report.Closed+one.Closed, report.Events+one.Events
		return nil
	})
	report.Orgs = len(seen)
	s.forgetDays(open)
	return report, errors.Join(errs...)
}

// findScopes adds to scopes the scopes with records, by the marks of the last days to tomorrow, without days
// and scopes that are done. closable has the days on which no record can count any more in any time zone.
func (s *sweeper) findScopes(ctx context.Context, scopes map[string]*sweptScope) (closable map[string]bool, err error) {
	now := s.standing.now()
	today := calendar.InZone("").Day(now)
	closable = map[string]bool{}
	for n := -sweptDays - 1; n <= 1; n++ {
		day := calendar.AddDays(today, n)
		if s.isDone(day, "") {
			continue
		}
		if calendar.InZone("").IsClosable(day, now.Add(-12*time.Hour)) { // also in the last zone
			closable[day] = true
		}
		err := s.standing.ledger.EachMark(ctx, day, func(m ledger.Mark) {
			if s.isDone(day, m.Scope) {
				return
			}
			w := scopes[m.Scope]
			if w == nil {
				_, app, _ := strings.Cut(m.Scope, "#APP#")
				w = &sweptScope{org: m.Org, app: app, days: map[string]map[string]bool{}}
				scopes[m.Scope] = w
			}
			if w.days[day] == nil {
				w.days[day] = map[string]bool{}
			}
			w.days[day][m.Label] = true
		})
		if err != nil {
			return nil, err
		}
	}
	return closable, nil
}

// addOrg adds to scopes all scopes of an organisation, with or without spend, for all labels and days. With an
// organisation without apps it adds the organisation's scope. Unknown or deleted ones are ErrNotFound.
func (s *sweeper) addOrg(ctx context.Context, org string, scopes map[string]*sweptScope) error {
	t, err := s.days.readTarget(ctx, org, "")
	if err != nil {
		return err
	}
	keys, err := s.days.scopesOf(ctx, t)
	for _, scope := range keys {
		_, app, _ := strings.Cut(scope, "#APP#")
		scopes[scope] = &sweptScope{org: org, app: app}
	}
	if err == nil && len(keys) == 0 { // it exists and has no app
		scopes[ledger.OrgScope(org)] = &sweptScope{org: org}
	}
	return wrapFailure("Sweep", err)
}

// isDone reports whether this process has closed the day in the scope, so that it needs no further sweep. With
// an empty scope it reports that for all scopes of the day together.
func (s *sweeper) isDone(day, scope string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[store.Key{PK: day, SK: scope}]
}

// setDone records in this process that the day in the scope is closed and needs no further sweep. With an empty
// scope it records that for all scopes of the day.
func (s *sweeper) setDone(day, scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = map[store.Key]bool{}
	}
	s.done[store.Key{PK: day, SK: scope}] = true
}

// forgetDays records in this process that the days in closed need no further sweep in any scope. It drops the
// records of single scopes of those days to save memory.
func (s *sweeper) forgetDays(closed map[string]bool) {
	s.mu.Lock()
	maps.DeleteFunc(s.done, func(k store.Key, _ bool) bool { return closed[k.PK] })
	s.mu.Unlock()
	for day := range closed {
		s.setDone(day, "")
	}
}

// sweepScope closes a scope's past days, delivers its pending events and finds reached thresholds, each even if
// another fails. pending are marked days that stay open. For a deleted organisation it does nothing and returns
// ErrNotFound.
func (s *sweeper) sweepScope(ctx context.Context, scope string, w *sweptScope) (report SweepReport, pending []string, err error) {
	pending = slices.Collect(maps.Keys(w.days))
	t, err := s.standing.tenants.readWithoutCaching(ctx, w.org, w.app)
	if errors.Is(err, ErrNotFound) { // deleted: the next read closes its days
		return report, nil, err
	}
	if err != nil {
		return report, pending, err
	}
	var errs []error
	report.Events, err = s.deliverPending(ctx, scope)
	errs = append(errs, wrapFailure("Sweep", err))
	today := t.calendar.Day(s.standing.now())
	if w.days == nil || w.days[today] != nil {
		errs = append(errs, s.findThresholds(ctx, t, scope, w.days[today]))
	}
	report.Closed, pending, err = s.closeDays(ctx, t, scope, w.days)
	return report, pending, errors.Join(append(errs, wrapFailure("Sweep", err))...)
}

// findThresholds queries a scope's spend, delivers events of thresholds reached today, and updates an app's
// sticky record. marked are the labels with spend; nil means those of the ordering. Without OnEvent and sticky
// records it does nothing.
func (s *sweeper) findThresholds(ctx context.Context, t *tenant, scope string, marked map[string]bool) error {
	if s.standing.opts.OnEvent == nil && !t.config.Sticky {
		return nil
	}
	if t.app == "" && marked != nil { // including labels in an app's ordering only
		all := *t
		all.config.Ordering = slices.DeleteFunc(slices.Sorted(maps.Keys(marked)), func(label string) bool {
			_, ok := t.config.Quotas[label]
			return !ok
		})
		t = &all
	}
	now := s.standing.now()
	b := s.standing.ledger.PeekBoard(scope)
	version, _, err := b.ReadSums(ctx, t.countersNeeded(now), true)
	if err == nil {
		s.standing.findEventsIn(ctx, s.standing.peekView(t), t, b, version, now)
	}
	return err
}

// closeDays stores missing totals of a scope's past days of the last week, and marks its days as done in this
// process. marked has labels by day; nil means all. closed counts stored totals, old ones too; pending are
// marked days that stay open.
func (s *sweeper) closeDays(ctx context.Context, t *tenant, scope string, marked map[string]map[string]bool) (closed int, pending []string, err error) {
	now := s.standing.now()
	to := calendar.AddDays(t.calendar.FirstOpen(t.calendar.Day(now), now), -1)
	from := calendar.AddDays(to, 1-sweptDays)
	labels := map[string]bool{}
	for _, l := range t.labels {
		labels[l] = marked == nil
	}
	first := to
	for day, of := range marked {
		if day > to {
			pending = append(pending, day)
			continue
		}
		first = min(first, day)
		maps.Copy(labels, of)
	}
	maps.DeleteFunc(labels, func(_ string, wanted bool) bool { return !wanted })
	if marked == nil {
		first = t.calendar.Day(t.config.CreatedAt)
	}
	from = max(from, first)
	if to < from || len(labels) == 0 {
		return 0, pending, nil
	}
	days, err := s.standing.ledger.SumDays(ctx, t.calendar, scope, labels, from, to)
	err = errors.Join(err, s.standing.ledger.CloseAll(ctx, ledger.CollectClosings(from, days.Complete).Found))
	for _, rows := range days.Rows {
		closed += len(rows)
	}
	for day := range marked {
		switch {
		case day > to:
		case err != nil:
			pending = append(pending, day)
		default:
			s.setDone(day, scope)
		}
	}
	return closed, pending, err
}

// deliverPending delivers a scope's stored events that are not delivered, and returns the number of those
// delivered now. It leaves events that another process has claimed lately. It stops at the first error, and
// does nothing without Options.OnEvent.
func (s *sweeper) deliverPending(ctx context.Context, scope string) (delivered int, err error) {
	if s.standing.opts.OnEvent == nil {
		return 0, nil
	}
	events, done, err := s.standing.readEvents(ctx, scope)
	if err != nil {
		return 0, err
	}
	v := &view{done: done, later: map[string]time.Time{}}
	for _, e := range events {
		if v.done[e.ID] {
			continue
		}
		if err := s.standing.deliverEvent(ctx, v, e, s.standing.now()); err != nil {
			return delivered, err
		}
		if v.done[e.ID] {
			delivered++
		}
	}
	return delivered, nil
}
