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
	how := "no shards: others read them, or there are none yet"
	if s.Shards > 0 {
		how = notation.Many(s.Shards, "shard") + ", up to date"
		if s.Behind > 0 {
			how = notation.Many(s.Shards, "shard") + ", " + notation.Wait(s.Behind.Truncate(time.Second)) + " behind"
		}
	}
	if s.Gathered > 0 {
		how += ", " + notation.Number(int64(s.Gathered)) + " waiting"
	}
	return how + ", " + s.Done()
}

// Done says what was done.
func (s Status) Done() string {
	parts := []string{notation.Number(s.Counted) + " counted"}
	add := func(n int64, one, more string) {
		if n > 0 {
			parts = append(parts, notation.Number(n)+" "+notation.Words(n, one, more))
		}
	}
	add(s.Repeated, "repeated", "repeated")
	add(s.HoursClosed, "hour closed", "hours closed")
	add(s.HoursFinal, "hour final", "hours final")
	add(s.Gaps, "gap", "gaps")
	add(s.Skipped, "skipped", "skipped")
	add(s.Retries, "retry", "retries")
	return strings.Join(parts, ", ")
}
