// Package ledger formats usage for commands: rows of tables and of CSV, and totals over
// windows. It is pure.
package ledger

import (
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

// State returns the word for a window's counts: "open" while usage is added, "closed" if only late records may
// follow, and "final" after that.
func State(u aggregator.Usage) string {
	switch {
	case u.Final:
		return "final"
	case u.Open:
		return "open"
	}
	return "closed"
}

// WindowText formats the start of a window for people: 2026-01-23 15:00, 2026-01-23, 2026-01.
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
