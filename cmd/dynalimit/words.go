package main

import (
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// orDash returns s, or "-" if it is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// requireWord returns an error if word is empty, else nil. The error uses what, the name of the argument, such
// as "id of the entity".
func requireWord(what, word string) error {
	if word == "" {
		return fmt.Errorf("the %s is empty: give one", what)
	}
	return nil
}

// barWidth is the width of a full bar.
const barWidth = 32

// raiseText formats a raise: "to 600 until 2026-01-31 18:00:00 +01:00".
func raiseText(r admin.Raise) string {
	return fmt.Sprintf("to %s until %s", notation.GroupedNumber(r.Capacity), endText(r.Until))
}

// endText formats the end of a raise in this machine's time zone.
func endText(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05 -07:00") }
