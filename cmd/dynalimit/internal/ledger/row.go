// Package ledger is usage as commands show it: rows of tables and of CSV, totals
// over windows. It is pure.
package ledger

import (
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

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
