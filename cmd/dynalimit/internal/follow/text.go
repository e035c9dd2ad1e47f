package follow

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
)

// mostGaps is how many gaps are told one by one of those that are found at once.
const mostGaps = 5

// gapText is a gap in words.
func gapText(g aggregator.Gap) string {
	what := notation.Tokens(g.Missing) + " without a record"
	if g.Unseen > 0 {
		what = notation.Many(g.Unseen, "bucket") + " whose end nobody saw"
		if g.Missing != 0 {
			what += ", and " + notation.Tokens(g.Missing) + " without a record"
		}
	}
	return fmt.Sprintf("gap: %s of %s, %s in the hour of %s: %s", g.Limit, g.Entity, g.Resource, g.Hour.UTC().Format("2006-01-02 15:04"), what)
}

// Text is the status in one line.
func (s Status) Text() string {
	text := reading(s.Shards, s.Behind, s.Gathered)
	if read := s.Counted + s.Repeated + s.Ignored; read > s.Counted {
		text += ", " + notation.Number(read) + " read" // most of an apply is nothing to count
	}
	return text + ", " + s.Done()
}

// reading says how far the stream was read.
func reading(shards int, behind time.Duration, gathered int) string {
	how := "no shards: others read them, or there are none yet"
	if shards > 0 {
		how = notation.Many(shards, "shard") + ", up to date"
		if behind > 0 {
			how = notation.Many(shards, "shard") + ", " + notation.Wait(behind.Truncate(time.Second)) + " behind"
		}
	}
	if gathered > 0 {
		how += ", " + notation.Number(int64(gathered)) + " waiting"
	}
	return how
}

// Done says what was done.
func (s Status) Done() string {
	parts := []string{notation.Number(s.Counted) + " counted"}
	parts = some(parts, s.Repeated, "repeated", "repeated")
	parts = some(parts, s.HoursClosed, "hour closed", "hours closed")
	parts = some(parts, s.HoursFinal, "hour final", "hours final")
	parts = some(parts, s.Gaps, "gap", "gaps")
	parts = some(parts, s.Skipped, "skipped", "skipped")
	parts = some(parts, s.Retries, "retry", "retries")
	if s.Closing != "" {
		parts = append(parts, s.Closing)
	}
	return strings.Join(parts, ", ")
}

// some adds how many there are of something, if there are any.
func some(parts []string, n int64, one, more string) []string {
	if n == 0 {
		return parts
	}
	return append(parts, notation.Number(n)+" "+notation.Words(n, one, more))
}
