package ledger

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
)

// columns are those of the CSV.
var columns = []string{
	"start", "end", "window", "resource", "entity_id", "parent_id", "plan", "limit",
	"consumed_tokens", "passed_tokens", "pending_tokens", "unrecorded_tokens", "unseen_ends", "entities", "state",
}

// CSV writes usage as comma-separated values, a line for each limit of a window, as RFC 4180
// has it. Amounts are in tokens, exact.
type CSV struct{ to *csv.Writer }

// NewCSV returns a CSV that writes to w, with its titles written.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{to: csv.NewWriter(w)}
	c.to.UseCRLF = true
	return c, c.to.Write(columns)
}

// Add writes what a window used.
func (c *CSV) Add(u aggregator.Usage) error {
	for _, l := range u.Limits {
		if err := c.to.Write([]string{
			u.Start.Format(time.RFC3339), u.End.Format(time.RFC3339), string(u.Window), cell(u.Resource), cell(u.Entity), cell(u.Parent), cell(u.Plan), cell(l.Limit),
			notation.Decimal(l.Consumed), notation.Decimal(l.Passed), notation.Decimal(l.Pending), notation.Decimal(l.Unrecorded),
			strconv.FormatInt(l.Unseen, 10), strconv.FormatInt(u.Entities, 10), State(u),
		}); err != nil {
			return err
		}
	}
	return nil
}

// Flush writes what was held back.
func (c *CSV) Flush() error {
	c.to.Flush()
	return c.to.Error()
}

// begins are what a spreadsheet takes for the beginning of a formula.
const begins = "=+-@\t\r\n＝＋－＠"

// cell is a text that no spreadsheet takes for a formula: an apostrophe stands before what
// would be one. Numbers are not texts.
func cell(text string) string {
	if text != "" && strings.ContainsRune(begins, []rune(text)[0]) {
		return "'" + text
	}
	return text
}
