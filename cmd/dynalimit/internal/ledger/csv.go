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
	"unit", "model", "amount", "passed", "pending", "unrecorded", "unseen_ends", "entities", "state",
}

// CSV writes usage as comma-separated values (RFC 4180), one line for each limit of a window, or for each of its
// models. Amounts are exact, in dollars for the unit "usd", else in tokens.
type CSV struct {
	to      *csv.Writer
	byModel bool
}

// NewCSV returns a CSV that writes to w, with the titles in its buffer. With byModel it has a line for each
// model of a limit in place of one; their amounts add up to the limit's.
func NewCSV(w io.Writer, byModel bool) (*CSV, error) {
	c := &CSV{csv.NewWriter(w), byModel}
	c.to.UseCRLF = true
	return c, c.to.Write(columns)
}

// Add writes a line for each limit of a window's usage or, with byModel, for each model of a limit that is
// counted by model. Lines are buffered until Flush.
func (c *CSV) Add(u aggregator.Usage) error {
	for _, l := range u.Limits {
		if c.byModel && len(l.ByModel) > 0 {
			for _, m := range ModelsOf(l) {
				if err := c.writeLine(u, l, safeCell(m.Model), notation.ExactInUnit(l.Unit, m.Consumed), "", "", "", ""); err != nil {
					return err
				}
			}
			continue
		}
		if err := c.writeLine(u, l, "", notation.ExactInUnit(l.Unit, l.Consumed), notation.ExactInUnit(l.Unit, l.Passed), notation.ExactInUnit(l.Unit, l.Pending),
			notation.ExactInUnit(l.Unit, l.Unrecorded), strconv.FormatInt(l.Unseen, 10)); err != nil {
			return err
		}
	}
	return nil
}

// writeLine adds one line of a limit to the buffer; model is "" for the whole limit. amounts are the five cells
// from amount to unseen_ends.
func (c *CSV) writeLine(u aggregator.Usage, l aggregator.LimitUsage, model string, amounts ...string) error {
	cells := []string{
		u.Start.Format(time.RFC3339), u.End.Format(time.RFC3339), string(u.Window), safeCell(u.Resource), safeCell(u.Entity), safeCell(u.Parent),
		safeCell(u.Plan), safeCell(l.Limit), l.Unit, model,
	}
	return c.to.Write(append(append(cells, amounts...), strconv.FormatInt(u.Entities, 10), State(u)))
}

// Flush writes the buffered lines to the writer of NewCSV, and returns the first error of writing so far.
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
