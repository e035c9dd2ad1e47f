package follow

import (
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// mostGaps is the maximal number of gaps to print individually at a time.
const mostGaps = 5

// gapText describes a gap for people: the limit, the entity, the resource and the hour. The missing amount in
// tokens, the number of buckets whose end nobody saw, or both follow.
func gapText(g aggregator.Gap) string {
	what := notation.GroupedTokens(g.Missing) + " without a record"
	if g.Unseen > 0 {
		what = notation.CountText(g.Unseen, "bucket") + " whose end nobody saw"
		if g.Missing != 0 {
			what += ", and " + notation.GroupedTokens(g.Missing) + " without a record"
		}
	}
	return fmt.Sprintf("gap: %s of %s, %s in the hour of %s: %s", g.Limit, g.Entity, g.Resource, g.Hour.UTC().Format("2006-01-02 15:04"), what)
}

// Text formats the status as one line: the number of shards, their lag, the waiting and the read records, then
// the counts of Done.
func (s Status) Text() string {
	text := readingText(s.Shards, s.Behind, s.Gathered)
	if read := s.Counted + s.Repeated + s.Ignored; read > s.Counted {
		text += ", " + notation.GroupedNumber(read) + " read" // most records of an apply count nothing
	}
	return text + ", " + s.Done()
}

// readingText formats the number of shards, how far behind they are, and the number of gathered records that
// wait, unless it is 0. Without shards it says so.
func readingText(shards int, behind time.Duration, gathered int) string {
	how := "no shards: others read them, or there are none yet"
	if shards > 0 {
		how = notation.CountText(shards, "shard") + ", up to date"
		if behind > 0 {
			how = notation.CountText(shards, "shard") + ", " + notation.WaitText(behind.Truncate(time.Second)) + " behind"
		}
	}
	if gathered > 0 {
		how += ", " + notation.GroupedNumber(int64(gathered)) + " waiting"
	}
	return how
}

// Done lists the counts as one text: counted and repeated records, closed hours, gaps, skipped records and
// retries. It omits counts of 0, except that of counted records. The progress of a closing comes last.
func (s Status) Done() string {
	parts := []string{notation.GroupedNumber(s.Counted) + " counted"}
	parts = appendCount(parts, s.Repeated, "repeated", "repeated")
	parts = appendCount(parts, s.HoursClosed, "hour closed", "hours closed")
	parts = appendCount(parts, s.HoursFinal, "hour final", "hours final")
	parts = appendCount(parts, s.Gaps, "gap", "gaps")
	parts = appendCount(parts, s.Skipped, "skipped", "skipped")
	parts = appendCount(parts, s.Retries, "retry", "retries")
	if s.Closing != "" {
		parts = append(parts, s.Closing)
	}
	return strings.Join(parts, ", ")
}

// appendCount appends to parts a count with its noun, one for 1 and more for other numbers. It returns parts as
// they are if n is 0.
func appendCount(parts []string, n int64, one, more string) []string {
	if n == 0 {
		return parts
	}
	return append(parts, notation.GroupedNumber(n)+" "+notation.Plural(n, one, more))
}
