package budget

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// days reads the spend of days.
type days struct {
	store   *store.Store
	ledger  *ledger.Ledger
	admin   *administration
	tenants *tenants
	opts    Options
	now     func() time.Time
}

// LabelTotals is one label's usage on one day.
type LabelTotals struct {
	Label         string `json:"label"`           // its name in the ordering
	CostMicros    int64  `json:"cost_usd_micros"` // charges less credits in µ$, rounded half up
	prices.Tokens `json:"tokens"`
	Requests      int64         `json:"requests"`         // counted records
	Quota         int64         `json:"quota_usd_micros"` // µ$, as configured now
	Percent       float64       `json:"quota_pct"`        // of the quota, one decimal; 0 when the quota is 0
	Status        prices.Status `json:"status"`           // from the spend of the day and the quota
}

// DayTotals is one day's usage by label, in order of preference. Labels that are no longer in
// the ordering come last.
type DayTotals struct {
	Day        string        `json:"day"`             // like 20260123
	CostMicros int64         `json:"cost_usd_micros"` // of all labels, in µ$
	Labels     []LabelTotals `json:"labels"`          // in the order above
}

// readTotals returns one day's usage by label from the store, in micro-dollars: of today if day is empty, of
// all apps if app is empty. A bad, future or expired day is a *fault.ValidationError. It then stores missing
// totals of closed days in the background.
func (s *days) readTotals(ctx context.Context, org, app, day string) (DayTotals, error) {
	t, err := s.readTarget(ctx, org, app)
	if err != nil {
		return DayTotals{}, err
	}
	if day, err = t.dayOrToday(day, s.now()); err != nil {
		return DayTotals{}, err
	}
	c := t.newClosings()
	days, err := s.dayRange(ctx, t, day, day, c)
	s.ledger.StoreTotalsLater(c)
	if err != nil {
		return DayTotals{}, wrapFailure("Totals", err)
	}
	return days[0], nil
}

const maxHistory = 3700 // days

// readHistory returns an iterator over each day's usage in micro-dollars, oldest first, not after today, read
// 31 days at a time. An error is the last element. At its end missing totals of closed days are stored in the
// background.
func (s *days) readHistory(ctx context.Context, org, app, from, to string) iter.Seq2[DayTotals, error] {
	return func(yield func(DayTotals, error) bool) {
		t, err := s.readTarget(ctx, org, app)
		if err == nil {
			to, err = t.validRange(s.now(), from, to)
		}
		if err != nil {
			yield(DayTotals{}, err)
			return
		}
		c := t.newClosings()
		defer s.ledger.StoreTotalsLater(c)
		for from <= to {
			last := min(calendar.AddDays(from, 30), to)
			days, err := s.dayRange(ctx, t, from, last, c)
			if err != nil {
				yield(DayTotals{}, wrapFailure("History", err))
				return
			}
			if !yieldAll(days, yield) {
				return
			}
			from = calendar.AddDays(last, 1)
		}
	}
}

// yieldAll calls yield with each day, without an error, until yield returns false. It returns false then, and
// true after all days.
func yieldAll(days []DayTotals, yield func(DayTotals, error) bool) bool {
	for _, d := range days {
		if !yield(d, nil) {
			return false
		}
	}
	return true
}

// validRange returns the last day of a history: to, or today if that is earlier. A malformed day, a range
// backwards or above maxHistory days, or a from whose counters may have expired is a *fault.ValidationError.
func (t *tenant) validRange(now time.Time, from, to string) (string, error) {
	first, err := validDay("from", from)
	if err != nil {
		return "", err
	}
	last, err := validDay("to", to)
	if err != nil {
		return "", err
	}
	if last.Before(first) || last.Sub(first).Hours() > 24*maxHistory {
		return "", invalid("to", "%s is not 0 to %d days after %s", to, maxHistory, from)
	}
	return min(to, t.calendar.Day(now)), t.checkRetained("from", from, now)
}

// readTarget returns the cached configuration of an app, or of the organisation if app is empty, with the
// organisation's part read again. So sums contain labels that another process has just added. A missing one is
// ErrNotFound.
func (s *days) readTarget(ctx context.Context, org, app string) (*tenant, error) {
	if err := validReadTarget(org, app); err != nil {
		return nil, err
	}
	t, err := s.tenants.get(ctx, org, app)
	if err != nil {
		return nil, err
	}
	o, err := s.admin.items.loadOrg(ctx, org)
	if err != nil {
		return nil, adminError("configuration", err)
	}
	return t.withOrg(o), nil
}

// newClosings returns an empty collector for totals that a read may store. It leaves out totals without writes
// of days before the organisation's creation.
func (t *tenant) newClosings() *ledger.Closings {
	return ledger.CollectClosings(t.calendar.Day(t.config.CreatedAt), nil)
}

// dayRange returns the usage of each day from one to another, summed over all scopes of the tenant, days
// without spend too. It adds to c the totals of finished days that are not stored yet. Costs are in
// micro-dollars.
func (s *days) dayRange(ctx context.Context, t *tenant, from, to string, c *ledger.Closings) ([]DayTotals, error) {
	labels := map[string]bool{}
	for _, l := range mergeLabels(t.labels, t.config.Ordering...) {
		labels[l] = true
	}
	keys, err := s.scopesOf(ctx, t)
	if err != nil {
		return nil, err
	}
	sums := map[string]map[string]ledger.Counter{}
	var mu sync.Mutex // guards sums and c
	err = store.Each(ctx, slices.Values(keys), func(ctx context.Context, key string) error {
		days, err := s.sumDays(ctx, t, key, labels, max(from, t.firstDay(s.now())), to)
		mu.Lock()
		defer mu.Unlock()
		c.Add(days.Complete...)
		for day, rows := range days.Rows {
			if sums[day] == nil {
				sums[day] = map[string]ledger.Counter{}
			}
			for label, row := range rows {
				sums[day][label] = sums[day][label].Add(row)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []DayTotals
	for day := from; day <= to; day = calendar.AddDays(day, 1) {
		out = append(out, t.dayTotals(day, sums[day], s.now()))
	}
	return out, nil
}

// sumDays returns a scope's sums by day and label, read within Options.Timeout; key is the scope's key. If to
// is before from, it reads nothing and returns zero Days.
func (s *days) sumDays(ctx context.Context, t *tenant, key string, labels map[string]bool, from, to string) (ledger.Days, error) {
	if to < from {
		return ledger.Days{}, nil
	}
	ctx, cancel := s.opts.withTimeout(ctx)
	defer cancel()
	return s.ledger.SumDays(ctx, t.calendar, key, labels, from, to)
}

// scopesOf returns the keys of the scopes with the tenant's spend. That is one, but for an organisation with a
// scope per app it is those of all apps. It reads the apps for that, deleted ones too.
func (s *days) scopesOf(ctx context.Context, t *tenant) ([]string, error) {
	if t.config.Scope == ScopeOrg || t.app != "" {
		return []string{t.scope()}, nil
	}
	apps, err := s.admin.items.loadApps(ctx, t.org)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(apps))
	for _, app := range slices.Sorted(maps.Keys(apps)) {
		keys = append(keys, ledger.AppScope(t.org, app))
	}
	return keys, nil
}

// dayTotals returns a day's counters by label as DayTotals in micro-dollars, in the order of preference, with
// quotas and prices of now. Labels outside the ordering come last, and only if something was written. It reads
// nothing.
func (t *tenant) dayTotals(day string, rows map[string]ledger.Counter, now time.Time) DayTotals {
	p := t.policy()
	out := DayTotals{Day: day, Labels: []LabelTotals{}}
	var sum money.Picos
	order := func(label string) int {
		if i := slices.Index(p.ordering, label); i >= 0 {
			return i
		}
		return len(p.ordering)
	}
	labels := mergeLabels(t.labels, p.ordering...)
	slices.SortStableFunc(labels, func(a, b string) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a, b))
	})
	for _, label := range labels {
		row := rows[label]
		if row.Writes == 0 && order(label) == len(p.ordering) {
			continue
		}
		_, _, priced := t.lookupPrice(p, label, now)
		state := labelState{label: label, priced: priced, quota: p.quotas[label], spend: row.Spend()}
		out.Labels = append(out.Labels, LabelTotals{
			Label: label, CostMicros: state.spend.Micros(), Tokens: tokensOf(row.Tokens), Requests: row.Requests,
			Quota: state.quota, Percent: state.spend.PercentOf(state.quota), Status: state.status(p.tight),
		})
		sum = sum.Add(state.spend)
	}
	out.CostMicros = sum.Micros()
	return out
}

// TagTotal is the cost of the calls with one value of a tag on one day.
type TagTotal struct {
	Value      string `json:"value"`           // the tag's value
	CostMicros int64  `json:"cost_usd_micros"` // in µ$, rounded half up
	Requests   int64  `json:"requests"`        // number of records
}

// tagTotals reads a day's cost in micro-dollars for each value of a tag, and returns the most expensive first.
// An empty app means all apps, an empty day today. A bad tag or day is a *fault.ValidationError.
func (s *days) tagTotals(ctx context.Context, org, app, day, tag string) ([]TagTotal, error) {
	if err := validName("tag", tag); err != nil {
		return nil, err
	}
	t, err := s.readTarget(ctx, org, app)
	if err != nil {
		return nil, err
	}
	if day, err = t.dayOrToday(day, s.now()); err != nil {
		return nil, err
	}
	scopes, err := s.scopesOf(ctx, t)
	if err != nil {
		return nil, wrapFailure("TagTotals", err)
	}
	rows := map[string]ledger.Counter{}
	var mu sync.Mutex // guards rows
	err = store.Each(ctx, slices.Values(scopes), func(ctx context.Context, scope string) error {
		return s.sumTags(ctx, t, scope, tag, day, func(value string, row ledger.Counter) {
			mu.Lock()
			defer mu.Unlock()
			rows[value] = rows[value].Add(row)
		})
	})
	if err != nil {
		return nil, wrapFailure("TagTotals", err)
	}
	out := make([]TagTotal, 0, len(rows))
	for _, value := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, TagTotal{value, rows[value].Spend().Micros(), rows[value].Requests})
	}
	slices.SortStableFunc(out, func(a, b TagTotal) int { return cmp.Compare(b.CostMicros, a.CostMicros) })
	return out, nil
}

// sumTags reads a scope's counters of one tag on a day, within Options.Timeout, and calls add with each counter
// and its tag value. A value may come several times, one per shard; calls of one scope come one at a time.
func (s *days) sumTags(ctx context.Context, t *tenant, scope, tag, day string, add func(value string, row ledger.Counter)) error {
	ctx, cancel := s.opts.withTimeout(ctx)
	defer cancel()
	shards, err := s.ledger.ShardsOf(ctx, scope, mergeLabels(t.labels, t.config.Ordering...), day)
	if err != nil {
		return err
	}
	prefix := "DAY#" + day + "#"
	return s.ledger.ReadShards(ctx, ledger.TagPartition(scope, tag), prefix, prefix+"~", shards, func(key store.Key, row ledger.Counter) {
		value, _, _ := strings.Cut(key.SK[len(prefix):], "#SH#")
		add(value, row)
	})
}
