package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// auditEvents is a sequence of audit events.
type auditEvents = iter.Seq2[audit.Event, error]

// auditWindow is the time span of one query of the newest events. Its events are held in
// memory.
const auditWindow = 24 * time.Hour

// oldestKept is how far a search without --from goes back.
const oldestKept = 90 * 24 * time.Hour

// atMost returns a sequence of the first n events, or of all if n is 0; errors pass. After its iteration *more
// is true if it left events out.
func atMost(all auditEvents, n int) (some auditEvents, more *bool) {
	more = new(bool)
	return func(yield func(audit.Event, error) bool) {
		seen := 0
		for e, err := range all {
			if seen++; n > 0 && seen > n && err == nil {
				*more = true
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}, more
}

// newestFirst returns the events of a query, newest first; now is the end without q.To. With a target it
// returns the last n, or all if n is 0. Without one it searches day by day, by default 90 days back, and
// returns at most n of each day.
func newestFirst(ctx context.Context, repo *dynalimit.Repository, q audit.Query, n int, now time.Time) auditEvents {
	if q.Target != "" {
		return lastReversed(admin.New(repo).AuditEvents(ctx, q), n)
	}
	to, from := q.To, q.From
	if to.IsZero() {
		to = now
	}
	if from.IsZero() {
		from = now.Add(-oldestKept)
	}
	return func(yield func(audit.Event, error) bool) {
		if to.Before(from) { // the library reports the fault
			lastReversed(admin.New(repo).AuditEvents(ctx, q), n)(yield)
			return
		}
		for window := range windowsBack(q, from, to) {
			for e, err := range lastReversed(admin.New(repo).AuditEvents(ctx, window), n) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// windowsBack splits a query into queries of 24 hours each between from and to, both included, the newest
// first. They do not overlap, and the oldest may be shorter.
func windowsBack(q audit.Query, from, to time.Time) iter.Seq[audit.Query] {
	return func(yield func(audit.Query) bool) {
		for end := to; !end.Before(from); {
			window := q
			window.From, window.To = end.Add(time.Millisecond-auditWindow), end
			if window.From.Before(from) {
				window.From = from
			}
			if !yield(window) {
				return
			}
			end = window.From.Truncate(time.Millisecond).Add(-time.Millisecond)
		}
	}
}

// lastReversed returns the last n events, or all if n is 0, in reverse order. It reads all events first and
// holds at most 2n of them, or all for 0. After an error it yields only the error.
func lastReversed(all auditEvents, n int) auditEvents {
	return func(yield func(audit.Event, error) bool) {
		var held []audit.Event
		for e, err := range all {
			if err != nil {
				yield(e, err)
				return
			}
			if held = append(held, e); n > 0 && len(held) >= 2*n {
				held = append(held[:0], held[len(held)-n:]...)
			}
		}
		for _, e := range slices.Backward(held) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// printEvent prints an event for people: its time in UTC, author, action and target, then its reason. A line
// for each changed field, limit or raise follows.
func printEvent(out *term.Output, e audit.Event) {
	at := e.Time.UTC().Format("2006-01-02 15:04:05")
	by := e.Principal
	if by == "" {
		by = "nobody known"
	}
	fmt.Fprintf(out, "%s  %s  %s of %s\n", out.Dim(at), term.Plain(by), out.Bold(strings.ReplaceAll(term.Plain(e.Action), "_", " ")), term.Plain(targetText(e)))
	if e.Reason != "" {
		fmt.Fprintf(out, "  reason: %s\n", term.Plain(e.Reason))
	}
	for _, c := range e.Changes {
		if was, is, ok := limitFacts(c); ok {
			for _, line := range diffFacts(out, was, is) {
				fmt.Fprintln(out, "  "+line)
			}
			continue
		}
		name := term.Plain(c.Field)
		room := len(name) + 8
		before, after := valueText(out, c.Before, room), valueText(out, c.After, room)
		switch {
		case c.Before == nil:
			fmt.Fprintln(out, "  "+out.Green("+ "+name+"  "+after))
		case c.After == nil:
			fmt.Fprintln(out, "  "+out.Red("- "+name+"  "+before))
		default:
			fmt.Fprintln(out, "  "+out.Yellow("~ "+name+"  "+before+" → "+after))
		}
	}
}

// limitFacts returns the limits or raises before and after a change, as texts by name. A missing side is an
// empty map. ok is false for changes of other fields, and for values that cannot be decoded.
func limitFacts(c audit.Change) (was, is map[string]string, ok bool) {
	switch c.Field {
	case "limits":
	case "raises":
		was, is = raiseFacts(c.Before), raiseFacts(c.After)
		return was, is, was != nil && is != nil
	default:
		return nil, nil, false
	}
	read := func(value json.RawMessage) map[string]string {
		var limits []trail.Limit
		if value != nil && json.Unmarshal(value, &limits) != nil {
			return nil
		}
		facts := map[string]string{}
		for _, l := range limits {
			facts[l.Name] = notation.DescribeLimit(dynalimit.Limit{
				Name: l.Name, Capacity: l.Capacity, Burst: l.Burst, RefillAmount: l.Amount, RefillPeriod: time.Duration(l.Period) * time.Second,
				Window: l.Window, Zone: l.Zone, Unit: l.Unit, PerModel: l.PerModel, MaxDebt: l.MaxDebt, Reserve: l.Reserve, Shadow: l.Shadow,
				Hold: time.Duration(l.Hold) * time.Second, Longest: time.Duration(l.Longest) * time.Second,
			}.WithAlerts(l.AlertAt...))
		}
		return facts
	}
	was, is = read(c.Before), read(c.After)
	return was, is, was != nil && is != nil
}

// raiseFacts decodes a JSON list of raises into texts, under keys such as "rpm raised". The map is empty for a
// nil value, and nil if the value or the end of a raise cannot be decoded.
func raiseFacts(value json.RawMessage) map[string]string {
	var raises []trail.Raise
	if value != nil && json.Unmarshal(value, &raises) != nil {
		return nil
	}
	facts := map[string]string{}
	for _, r := range raises {
		until, err := time.Parse(time.RFC3339, r.Until)
		if err != nil {
			return nil
		}
		facts[r.Name+" raised"] = raiseText(admin.Raise{Capacity: r.Capacity, Until: until})
	}
	return facts
}

// targetText describes the target of an event for people: "$PLAN:pro" becomes "plan pro", and the id of an
// entity stays. It adds the event's resource, unless that is the default one or the target itself.
func targetText(e audit.Event) string {
	text := e.Target
	if kind, name, found := strings.Cut(strings.TrimPrefix(text, "$"), ":"); strings.HasPrefix(text, "$") {
		text = strings.ToLower(kind)
		if found {
			text += " " + name
		}
	}
	if e.Resource != "" && e.Resource != schema.DefaultResource && !strings.HasSuffix(text, " "+e.Resource) {
		text += " on " + e.Resource
	}
	return text
}

// valueText returns a field's JSON value as one line: a string without its quotes, two quotes for an empty one,
// and "" for nil. On a terminal it cuts the text, to leave room columns for other text.
func valueText(out *term.Output, value json.RawMessage, room int) string {
	text := string(value)
	var plain string
	if json.Unmarshal(value, &plain) == nil {
		text = plain
	}
	if text == "" && value != nil {
		text = "''"
	}
	return out.Cut(term.Plain(text), room)
}
