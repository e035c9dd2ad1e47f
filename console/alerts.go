package console

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/audit"
)

type alerts struct {
	Rows []alertRow
	// Entity is the only entity of the list; empty for all. Waiting means that the list has undelivered alerts alone.
	Entity  string
	Waiting bool
	// Newest and Older are the first and the next page; empty without one.
	Newest, Older string
	// Cut means that alerts of the entity are left out.
	Cut bool
}

// alertRow is an alert of the list.
type alertRow struct {
	ID, Link, Resource, Limit, Window, When, Exact string
	// Crossed is the threshold with its colour.
	Crossed, Class, Used, Of string
	// State is the delivery, with its colour; without one it is text.
	State, StateClass string
}

const (
	// alertsLate is how long an alert waits before the page says that nobody delivers it.
	alertsLate = 10 * time.Minute
	// mostSkipped is the bound of the reader's AlertQuery.Skip.
	mostSkipped = 200
	// listUnits is the price of the 12 lists of a page, and ownUnits that of an entity's alerts.
	listUnits, ownUnits = 16, 4
)

// alertsPage returns the page of alerts, the newest first: of all entities or of one, up to a list's length. A
// visitor of a subtree sees only alerts since the entity was in it. Without a reader, or for an impossible id,
// the page has a note instead.
func alertsPage(ctx context.Context, v *view) (*page, string, error) {
	b := &alerts{Entity: v.query.Get("entity"), Waiting: v.query.Get("state") == "waiting"}
	p := &page{Title: "Alerts", Nav: "alerts", Body: b}
	if b.Entity == "" {
		b.Entity = v.access.Under
	}
	var since time.Time
	if v.access.Under != "" {
		chain, err := readChain(ctx, v, b.Entity)
		if err != nil {
			return nil, "", err
		}
		if since, err = insideSince(ctx, v, chain); err != nil {
			return nil, "", err
		}
	}
	if v.usage == nil {
		p.Notes = []note{{Title: "This console has no reader of alerts:", Text: "it was made without an aggregator.Reader."}}
		return p, "alerts", nil
	}
	if b.Entity != "" {
		p.Crumbs = []link{{b.Entity, v.entityHref(b.Entity)}}
	}
	found, err := readAlerts(ctx, v, aggregator.AlertQuery{Entity: b.Entity, Open: b.Waiting, Limit: listLength})
	var bad *dynalimit.ValidationError
	if errors.As(err, &bad) && bad.Field == "query.Entity" {
		p.Notes = []note{{Title: "No entity has such an id:", Text: "ids have letters, digits and _ . - : @."}}
		return p, "alerts", nil
	}
	if err != nil {
		return nil, "", err
	}
	if b.addRows(v, found, since) && v.access.Under == "" {
		p.Notes = []note{{
			Title: "Nobody delivers alerts:", Text: "some wait for more than 10 minutes. Put the address of a webhook into DYNALIMIT_ALERT_WEBHOOK, and follow the stream with it.",
			Command: "dynalimit tail --table " + v.table,
		}}
	}
	return p, "alerts", nil
}

// addRows appends the alerts of a page, up to the first decided before since, to b.Rows, and sets the links to
// other pages. It returns true if one of them has waited for delivery for over 10 minutes.
func (b *alerts) addRows(v *view, found aggregator.AlertPage, since time.Time) (late bool) {
	for _, a := range found.Alerts {
		if a.At.Before(since) {
			found.Older = nil
			break
		}
		late = late || a.Sent.IsZero() && a.Failed.IsZero() && v.now().Sub(a.At) > alertsLate
		b.Rows = append(b.Rows, showAlert(v, a))
	}
	b.Cut = found.Cut && since.IsZero()
	if found.Older != nil && !found.Older.Before.Before(since) {
		b.Older = b.pageAddress(v, found.Older)
	}
	if v.query.Has("before") {
		b.Newest = b.pageAddress(v, nil)
	}
	return late
}

// readAlerts returns the page of alerts for a query at the position in the visitor's address. Visitors share
// the result for a moment, and it takes read units from the visitor's budget.
func readAlerts(ctx context.Context, v *view, q aggregator.AlertQuery) (aggregator.AlertPage, error) {
	if at, err := time.Parse(time.RFC3339Nano, v.query.Get("before")); err == nil && !at.After(v.now()) {
		q.Before = at
		q.Skip, _ = strconv.Atoi(v.query.Get("skip"))
	}
	key := fmt.Sprintf("alerts %s %v %d %d", q.Entity, q.Open, q.Before.UnixMilli(), q.Skip)
	price := float64(listUnits + min(max(q.Skip, 0), mostSkipped)/4)
	if q.Entity != "" {
		price = ownUnits
	}
	return fetch(&v.visit, key, keepBuckets, price, func() (aggregator.AlertPage, error) {
		found, err := v.usage.Alerts(ctx, q)
		v.addUnits(float64(len(found.Alerts)) / 2)
		return found, err
	})
}

// pageAddress returns the address of the list's page that q asks for, with the same entity and state. A nil q
// is the first page.
func (b *alerts) pageAddress(v *view, q *aggregator.AlertQuery) string {
	query := url.Values{}
	if b.Entity != "" {
		query.Set("entity", b.Entity)
	}
	if b.Waiting {
		query.Set("state", "waiting")
	}
	if q != nil {
		query.Set("before", q.Before.Format(time.RFC3339Nano))
		query.Set("skip", strconv.Itoa(q.Skip))
	}
	return v.pageHref("alerts", query)
}

// showAlert converts an alert to a row of texts for people, in the console's time zone and with dollars for
// money. Its colours show the threshold and a missing delivery.
func showAlert(v *view, a aggregator.Alert) alertRow {
	money := a.Unit == dynalimit.USD
	r := alertRow{
		ID: a.Entity, Link: v.entityHref(a.Entity), Resource: a.Resource, Limit: a.Limit, Window: a.Window,
		When: a.At.In(v.options.Location).Format("Jan 2, 15:04"), Exact: a.At.UTC().Format(time.RFC3339),
		Crossed: fmt.Sprintf("%d %%", a.Percent), Used: formatAmount(money, a.Used/milli), Of: formatAmount(money, a.Amount/milli),
	}
	switch {
	case a.Shadow:
		r.Class, r.Crossed = "warn", "would deny" // the quota is in shadow
	case a.Percent >= 100:
		r.Class, r.Crossed = "bad", "denied" // a call was
	case a.Percent >= 80:
		r.Class = "warn"
	}
	switch {
	case !a.Sent.IsZero():
		r.State = a.Sent.In(v.options.Location).Format("15:04")
		if a.Sent.Sub(a.At) > 12*time.Hour {
			r.State = a.Sent.In(v.options.Location).Format("Jan 2, 15:04")
		}
	case !a.Failed.IsZero():
		r.State, r.StateClass = "failed", "bad"
	default:
		r.State, r.StateClass = "waiting", "warn"
	}
	return r
}

// insideSince returns the time from which an entity, the first of chain, was below the visitor's subtree. By
// then each level below its top was made and had its present parent. It is zero for the top itself.
func insideSince(ctx context.Context, v *view, chain []admin.Owned) (since time.Time, err error) {
	for _, level := range chain {
		e := level.Entity
		if e.ID == v.access.Under {
			break
		}
		key := fmt.Sprintf("moved %s %d %d", e.ID, e.CreatedAt.Unix(), e.Version) // of one state of one record
		moved, err := fetch(&v.visit, key, keepUsage, 2, func() (time.Time, error) { return readMove(ctx, v, e) })
		if err != nil {
			return since, err
		}
		if moved.After(since) {
			since = moved
		}
	}
	return since, nil
}

// readMove returns the time at which an entity got its present parent. That is the last such change in the
// audit trail of 90 days, or the time of its creation.
func readMove(ctx context.Context, v *view, e admin.Entity) (at time.Time, err error) {
	at = e.CreatedAt
	if e.Version == 1 {
		return at, nil
	}
	for event, err := range v.admin.AuditEvents(ctx, audit.Query{Target: e.ID, From: v.now().AddDate(0, 0, -90)}) {
		if err != nil {
			return at, err
		}
		if slices.ContainsFunc(event.Changes, func(c audit.Change) bool { return c.Field == "parent_id" }) && event.Time.After(at) {
			at = event.Time
		}
	}
	return at, nil
}
