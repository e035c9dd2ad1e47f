package aggregator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	opAlerts = "read the alerts"
	// usualAlerts is the default of AlertQuery.Limit, mostAlerts its bound, and mostSkipped that of AlertQuery.Skip.
	usualAlerts, mostAlerts, mostSkipped = 50, 100, 200
	// mostEntries bounds the read entries of a list: namespaces share the lists of open alerts.
	mostEntries = 2 * table.PageSize
	// mostOfEntity bounds the alerts of an entity that are read.
	mostOfEntity = 300
	// longestAlert is the age of the oldest stored alert: a month of its window, and the time for which alerts are kept after it.
	longestAlert = schema.AlertKept + 32*24*time.Hour
)

// AlertQuery selects alerts. The zero value selects the newest ones of today and yesterday.
type AlertQuery struct {
	// Entity selects the alerts of one entity, without those of its children. Defaults to all entities.
	Entity string
	// Open selects the alerts that wait for their delivery. Defaults to all.
	Open bool
	// Before is the time of the newest selected decision. Defaults to now.
	Before time.Time
	// Skip is the number of alerts decided at just that time that an earlier page had, at most 200. Defaults to 0.
	Skip int
	// Limit is the largest number of alerts, 1 to 100. Defaults to 50.
	Limit int
}

// AlertPage is a page of alerts. It is a plain value.
type AlertPage struct {
	// Alerts are the alerts, the newest decision first.
	Alerts []Alert
	// Older is the query of the next page; nil at the end. That page may be empty: it has two days, in UTC.
	Older *AlertQuery
	// Cut means that the entity has alerts that are left out: 300 are read.
	Cut bool
}

// Alerts returns a page of stored alerts. Without Entity it reads lists of the index, which may lag by a moment: a page
// costs at most 13 requests. With Entity it reads one partition consistently. It fails with a *ValidationError for a bad
// query.
func (r *Reader) Alerts(ctx context.Context, q AlertQuery) (AlertPage, error) {
	if err := checkCalled(ctx, r != nil && r.source.table != nil, "reader", "NewReader"); err != nil {
		return AlertPage{}, err
	}
	now := r.source.now()
	if q.Before.IsZero() {
		q.Before = now
	}
	q.Before, q.Limit = q.Before.UTC().Truncate(time.Millisecond), cmp.Or(q.Limit, usualAlerts)
	switch {
	case q.Limit < 1 || q.Limit > mostAlerts:
		return AlertPage{}, invalid("query.Limit", "is %d; give 1 to %d", q.Limit, mostAlerts)
	case q.Skip < 0 || q.Skip > mostSkipped:
		return AlertPage{}, invalid("query.Skip", "is %d; give 0 to %d", q.Skip, mostSkipped)
	case q.Before.Year() < firstYear || q.Before.Year() > lastYear:
		return AlertPage{}, invalid("query.Before", "%s is in no year from %d to %d; correct it", q.Before.Format(time.RFC3339), firstYear, lastYear)
	}
	if q.Entity != "" {
		if reason := schema.EntityRule.Check(q.Entity); reason != "" {
			return AlertPage{}, invalid("query.Entity", "%s", reason)
		}
		return r.source.alertsOfEntity(ctx, q)
	}
	return r.source.newestAlerts(ctx, q, now)
}

// listedAlert is an alert in a list, or of an entity.
type listedAlert struct {
	key  schema.Key
	at   time.Time
	item schema.Item // nil in a list
}

// alertsOfEntity returns the page of q with one entity's alerts, the newest first, with q.Open the open ones
// alone. It reads at most 300 alerts, and sets page.Cut if the entity has more.
func (s *usageSource) alertsOfEntity(ctx context.Context, q AlertQuery) (page AlertPage, err error) {
	var found []listedAlert
	read := 0
	for item, err := range s.table.Items(ctx, table.Query{Op: opAlerts, Hash: schema.PK, Value: s.keys.Entity(q.Entity), Prefix: schema.AlertPrefix, Whole: true, Newest: true}) {
		if err != nil {
			return page, err
		}
		if read++; read > mostOfEntity {
			page.Cut = true
			break
		}
		if at, open, ok := schema.ListedAlert(item); ok && !at.After(q.Before) && (open || !q.Open) {
			found = append(found, listedAlert{schema.KeyOf(item), at, item})
		}
	}
	found, page.Older = q.cutPage(found)
	page.Alerts, err = s.decodeAlerts(ctx, found)
	return page, err
}

// newestAlerts returns a page of all entities' alerts: of the day of q.Before and of the one before it, or the
// open ones of any day. page.Older continues before them, as far back as alerts are kept. Alerts older than the
// end of a list that was not read completely come with that page.
func (s *usageSource) newestAlerts(ctx context.Context, q AlertQuery, now time.Time) (page AlertPage, err error) {
	day := q.Before.Truncate(24 * time.Hour)
	from, days := day.AddDate(0, 0, -1), []time.Time{day, day.AddDate(0, 0, -1)}
	if q.Open {
		from, days = now.Add(-longestAlert), nil
	}
	if from.After(q.Before) {
		return page, nil
	}
	want := int32(q.Skip + q.Limit + 1) //nolint:gosec // at most 301
	lists := map[string]int32{}         // with the entries that one request asks for
	for shard := range schema.AlertShards {
		lists[schema.OpenAlerts(shard)] = max(want, table.PageSize)
		for _, d := range days {
			lists[schema.ClosedAlerts(s.keys.Prefix(), d, strconv.Itoa(shard))] = want
		}
	}
	var found []listedAlert
	var whole time.Time // what is newer is complete
	for _, list := range slices.Sorted(maps.Keys(lists)) {
		some, end, err := s.readAlertList(ctx, table.Query{
			Op: opAlerts, Index: schema.IndexEntityConfigs, Hash: schema.GSI3PK, Value: list, Sort: schema.GSI3SK, From: schema.AlertTime(from), To: schema.AlertTime(q.Before),
			Newest: true, Page: lists[list],
		}, int(want))
		if err != nil {
			return page, err
		}
		if found = append(found, some...); end.After(whole) {
			whole = end
		}
	}
	found = slices.DeleteFunc(found, func(a listedAlert) bool { return a.at.Before(whole) })
	found, page.Older = q.cutPage(found)
	if page.Older == nil && !whole.IsZero() {
		page.Older = q.olderThan(whole)
	}
	if older := from.Add(-time.Millisecond); page.Older == nil && older.After(now.Add(-longestAlert)) {
		page.Older = q.olderThan(from)
	}
	page.Alerts, err = s.decodeAlerts(ctx, found)
	return page, err
}

// readAlertList returns the namespace's alerts of one list, at most want, as keys and times. After max(want,
// mostEntries) entries, also of other namespaces, it stops, and end is the time of the last one; otherwise end
// is zero.
func (s *usageSource) readAlertList(ctx context.Context, list table.Query, want int) (found []listedAlert, end time.Time, err error) {
	read := 0
	for item, err := range s.table.Items(ctx, list) {
		if err != nil {
			return nil, end, err
		}
		at, _, ok := schema.ListedAlert(item)
		key := schema.KeyOf(item)
		if keys, is := schema.KeysOfAlert(key); ok && is && keys == s.keys {
			found = append(found, listedAlert{key: key, at: at})
		}
		read++
		switch {
		case len(found) == want:
			return found, end, nil
		case read == max(want, mostEntries):
			return found, at, nil
		}
	}
	return found, end, nil
}

// cutPage sorts found, the newest first, and drops repeated alerts and the q.Skip first ones at q.Before. It
// returns at most q.Limit of the rest. The result older is the query of the next page, nil without further
// alerts.
func (q AlertQuery) cutPage(found []listedAlert) (page []listedAlert, older *AlertQuery) {
	slices.SortStableFunc(found, func(x, y listedAlert) int { return y.at.Compare(x.at) })
	seen := map[schema.Key]bool{}
	found = slices.DeleteFunc(found, func(a listedAlert) bool { // one that left a list while it was read is in two
		defer func() { seen[a.key] = true }()
		return seen[a.key]
	})
	skipped := 0
	for skipped < min(q.Skip, len(found)) && found[skipped].at.Equal(q.Before) {
		skipped++
	}
	found = found[skipped:]
	if len(found) <= q.Limit {
		return found, nil
	}
	page = found[:q.Limit]
	last := page[len(page)-1].at
	next := q
	next.Before, next.Skip = last, 0
	for _, a := range page {
		if a.at.Equal(last) {
			next.Skip++
		}
	}
	if last.Equal(q.Before) {
		next.Skip += skipped
	}
	if next.Skip > mostSkipped {
		return page, q.olderThan(last)
	}
	return page, &next
}

// olderThan returns the query of alerts decided before a time.
func (q AlertQuery) olderThan(at time.Time) *AlertQuery {
	q.Before, q.Skip = at.Add(-time.Millisecond), 0
	return &q
}

// decodeAlerts returns alerts in the form of users, in their order. It reads the items of alerts from lists,
// eventually consistent, and leaves out those that have expired.
func (s *usageSource) decodeAlerts(ctx context.Context, found []listedAlert) (alerts []Alert, err error) {
	items, keys := make([]schema.Item, len(found)), make([]schema.Key, 0, len(found))
	for i, a := range found {
		if items[i] = a.item; a.item == nil {
			keys = append(keys, a.key)
		}
	}
	if len(keys) > 0 { // then of all
		if items, err = s.table.GetManyEventually(ctx, opAlerts, keys); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		if item == nil { // it expired meanwhile
			continue
		}
		a, err := schema.DecodeAlert(item)
		if err != nil {
			return nil, err
		}
		alerts = append(alerts, Alert(a.Shown()))
	}
	return alerts, nil
}
