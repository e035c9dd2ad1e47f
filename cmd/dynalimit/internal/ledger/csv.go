package ledger

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// columns are the columns of the CSV.
var columns = []string{
	"start", "end", "window", "resource", "entity_id", "parent_id", "plan", "limit",
	"consumed_tokens", "passed_tokens", "pending_tokens", "unrecorded_tokens", "unseen_ends", "entities", "state",
}

// CSV writes usage as comma-separated values (RFC 4180), one line for each limit of a window.
// Amounts are in tokens, exact.
type CSV struct{ to *csv.Writer }

// NewCSV returns a CSV that writes to w, after it has written the titles.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{to: csv.NewWriter(w)}
	c.to.UseCRLF = true
	return c, c.to.Write(columns)
}

// Add writes one line for each limit of a window's usage. Lines are buffered until Flush.
func (c *CSV) Add(u aggregator.Usage) error {
	for _, l := range u.Limits {
		if err := c.to.Write([]string{
			u.Start.Format(time.RFC3339), u.End.Format(time.RFC3339), string(u.Window), safeCell(u.Resource), safeCell(u.Entity), safeCell(u.Parent), safeCell(u.Plan), safeCell(l.Limit),
			notation.Decimal(l.Consumed), notation.Decimal(l.Passed), notation.Decimal(l.Pending), notation.Decimal(l.Unrecorded),
			strconv.FormatInt(l.Unseen, 10), strconv.FormatInt(u.Entities, 10), State(u),
		}); err != nil {
			return err
		}
	}
	return nil
}

// Flush writes buffered lines.
func (c *CSV) Flush() error {
	c.to.Flush()
	return c.to.Error()
}

// begins are the characters that begin a formula in a spreadsheet.
const begins = "=+-@\t\r\n＝＋－＠"

// safeCell returns a text that no spreadsheet takes for a formula: it prefixes a possible formula
// with an apostrophe. Numbers do not come here.
func safeCell(text string) string {
	if text != "" && strings.ContainsRune(begins, []rune(text)[0]) {
		return "'" + text
	}
	return text
}
