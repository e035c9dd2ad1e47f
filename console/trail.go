package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/audit"
)

type trail struct {
	Events       []event
	Span         string
	Older, Newer string
	By           string
}

// event is a change of the audit trail.
type event struct {
	By, Action, Target, Link, Resource, Reason, When, Exact string
	Lines                                                   []diff
}

// diff is a field before (Class "d") or after (Class "a") a change.
type diff struct{ Class, Text string }

// auditPage returns the page of the changes of two days of UTC, the newest first, at most 200. With the
// parameter "by" it shows only those of a principal. It has links to older and newer days.
func auditPage(ctx context.Context, v *view) (*page, string, error) {
	today := midnight(v.now())
	to := today.AddDate(0, 0, 1)
	if at, err := time.Parse(time.DateOnly, v.query.Get("before")); err == nil && at.Before(to) {
		to = at
	}
	from := to.AddDate(0, 0, -2)
	b := &trail{Span: from.Format("Jan 2") + " to " + to.AddDate(0, 0, -1).Format("Jan 2") + ", days of UTC", By: v.query.Get("by")}
	address := func(before time.Time) string {
		q := url.Values{"before": {before.Format(time.DateOnly)}}
		if b.By != "" {
			q.Set("by", b.By)
		}
		return v.pageHref("audit", q)
	}
	b.Older = address(from)
	if to.Before(today.AddDate(0, 0, 1)) {
		b.Newer = address(to.AddDate(0, 0, 2))
	}
	var err error
	b.Events, err = readEvents(ctx, v, audit.Query{From: from, To: to.Add(-time.Millisecond), Principal: b.By}, 200)
	return &page{Title: "Audit", Nav: "audit", Body: b}, "audit", err
}

// readEvents returns the last changes of a query, at most most, the newest first. Visitors share them for
// keepBuckets; a query and each read change take read units.
func readEvents(ctx context.Context, v *view, q audit.Query, most int) ([]event, error) {
	price := 15.0
	if q.Target != "" {
		price = 2
	}
	found, err := fetch(&v.visit, fmt.Sprintf("events %s %s %s %s", q.Target, q.Principal, q.From.Format(time.DateOnly), q.To.Format(time.DateOnly)), keepBuckets, price, func() (all []audit.Event, err error) {
		for e, err := range v.admin.AuditEvents(ctx, q) {
			if err != nil {
				return nil, err
			}
			v.addUnits(1)
			if all = append(all, e); len(all) > 2*most {
				all = slices.Delete(all, 0, most)
			}
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	events := make([]event, 0, min(len(found), most))
	for _, e := range slices.Backward(found) {
		if len(events) == most {
			break
		}
		events = append(events, showEvent(v, e))
	}
	return events, nil
}

// showEvent converts a change to texts for people, in the console's time zone, with a line for each side of a
// changed field. Only an entity as target has a link.
func showEvent(v *view, e audit.Event) event {
	at := e.Time.In(v.options.Location)
	shown := event{
		By: e.Principal, Action: strings.ReplaceAll(e.Action, "_", " "), Target: e.Target, Resource: e.Resource, Reason: e.Reason,
		When: at.Format("Jan 2, 15:04"), Exact: e.Time.UTC().Format(time.RFC3339),
	}
	if shown.By == "" {
		shown.By = "nobody known"
	}
	if kind, name, ok := strings.Cut(strings.TrimPrefix(e.Target, "$"), ":"); ok && strings.HasPrefix(e.Target, "$") {
		shown.Target = strings.ToLower(kind) + " " + name
	} else if e.Target == audit.System {
		shown.Target = "the system"
	} else if !strings.HasPrefix(e.Target, "$") {
		shown.Link = v.entityHref(e.Target)
	}
	if shown.Resource == "_default_" {
		shown.Resource = ""
	}
	for _, c := range e.Changes {
		if c.Before != nil {
			shown.Lines = append(shown.Lines, fieldLines("d", "− ", c.Field, c.Before)...)
		}
		if c.After != nil {
			shown.Lines = append(shown.Lines, fieldLines("a", "+ ", c.Field, c.After)...)
		}
	}
	return shown
}

// fieldLines returns the lines of one side of a changed field, each behind sign, with the CSS class. A list of
// limits has a line for each; another value is cut after 400 characters.
func fieldLines(class, sign, field string, value json.RawMessage) (lines []diff) {
	var limits []struct {
		Name     string `json:"name"`
		Capacity int64  `json:"capacity"`
		Window   string `json:"window"`
		Unit     string `json:"unit"`
		Period   int64  `json:"refill_period_seconds"`
	}
	if field == "limits" && json.Unmarshal(value, &limits) == nil && len(limits) > 0 {
		for _, l := range limits {
			text := l.Name + ": " + formatAmount(l.Unit != "", l.Capacity)
			if l.Window != "" {
				text += " a " + l.Window
			} else if l.Period > 0 {
				text += " in " + formatSpan(time.Duration(l.Period)*time.Second)
			}
			lines = append(lines, diff{class, sign + text})
		}
		return lines
	}
	text := string(value)
	var plain string
	if json.Unmarshal(value, &plain) == nil {
		text = plain
	}
	const most = 400
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + " …"
	}
	return []diff{{class, sign + field + ": " + text}}
}
