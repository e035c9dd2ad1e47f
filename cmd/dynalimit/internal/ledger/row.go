// Package ledger is usage as commands show it: rows of tables and of CSV, values of JSON,
// totals over windows. It is pure.
package ledger

import (
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

// Row is the usage of one window, for programs.
type Row struct {
	Window   aggregator.Window `json:"window"`
	Start    time.Time         `json:"start"`
	End      time.Time         `json:"end"`
	Resource string            `json:"resource"`
	Entity   string            `json:"entity_id,omitempty"`
	Parent   string            `json:"parent_id,omitempty"`
	Plan     string            `json:"plan,omitempty"`
	Entities int64             `json:"entities"`
	Open     bool              `json:"open"`
	Final    bool              `json:"final"`
	Limits   []Limit           `json:"limits"`
}

// Limit is what one limit counted, for programs. Amounts are in millitokens, exact.
type Limit struct {
	Limit      string `json:"limit"`
	Consumed   int64  `json:"consumed_millitokens"`
	Pending    int64  `json:"pending_millitokens,omitempty"`
	Passed     int64  `json:"passed_millitokens,omitempty"`
	Unrecorded int64  `json:"unrecorded_millitokens,omitempty"`
	Unseen     int64  `json:"unseen_ends,omitempty"`
}

// Of is usage as a row.
func Of(u aggregator.Usage) Row {
	r := Row{
		Window: u.Window, Start: u.Start, End: u.End, Resource: u.Resource, Entity: u.Entity, Parent: u.Parent, Plan: u.Plan,
		Entities: u.Entities, Open: u.Open, Final: u.Final, Limits: make([]Limit, len(u.Limits)),
	}
	for i, l := range u.Limits {
		r.Limits[i] = Limit(l)
	}
	return r
}

// State says in a word what may still come: open, closed, final.
func State(u aggregator.Usage) string {
	switch {
	case u.Final:
		return "final"
	case u.Open:
		return "open"
	}
	return "closed"
}

// WindowText is the beginning of a window as people read it: 2026-01-23 15:00, 2026-01-23,
// 2026-01.
func WindowText(w aggregator.Window, start time.Time) string {
	switch w {
	case aggregator.Month:
		return start.Format("2006-01")
	case aggregator.Day:
		return start.Format(time.DateOnly)
	case aggregator.Hour:
	}
	return start.Format("2006-01-02 15:04")
}
