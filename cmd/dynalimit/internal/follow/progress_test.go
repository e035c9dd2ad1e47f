package follow

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/aggregator"
)

var (
	noon  = time.Date(2026, 1, 23, 12, 0, 0, 0, time.UTC)
	one   = aggregator.Shard{Stream: "s", ID: "1"}
	other = aggregator.Shard{Stream: "s", ID: "2"}
)

// hearing is a Progress with a clock and what it told.
type hearing struct {
	*Progress
	at   time.Time
	told []string
}

func hear() *hearing {
	h := &hearing{at: noon}
	h.Progress = New(func() time.Time { return h.at }, func(line string) { h.told = append(h.told, line) })
	return h
}

func (h *hearing) quiet() time.Duration {
	d, _ := h.Quiet()
	return d
}

// TestQuiet: nothing waits only when every shard that was taken was read and processed, and
// no new one came.
func TestQuiet(t *testing.T) {
	h := hear()
	h.SetEnd(noon.Add(24 * time.Hour))
	pass := func() { h.at = h.at.Add(time.Minute) }
	pass()
	d, reading := h.Quiet()
	assert.Equal(t, time.Minute, d)
	assert.False(t, reading, "no shard was taken")

	h.ShardChanged(aggregator.ShardChange{Shard: one, State: aggregator.ShardTaken})
	pass()
	assert.Zero(t, h.quiet(), "not read yet")
	h.Lagged(aggregator.ShardLag{Shard: one})
	pass()
	assert.Equal(t, time.Minute, h.quiet())
	_, reading = h.Quiet()
	assert.True(t, reading)

	h.Lagged(aggregator.ShardLag{Shard: one, Last: noon, Gathered: 3, Behind: time.Second})
	pass()
	assert.Zero(t, h.quiet(), "three wait")
	h.Processed(aggregator.RecordsProcessed{Shard: one, Result: aggregator.Result{Counted: 3}})
	h.Lagged(aggregator.ShardLag{Shard: one, Last: noon})
	pass()
	assert.Equal(t, time.Minute, h.quiet())
	h.Lagged(aggregator.ShardLag{Shard: one, Last: noon})
	assert.Equal(t, time.Minute, h.quiet(), "nothing new")
	h.Lagged(aggregator.ShardLag{Shard: one, Last: noon.Add(1)})
	assert.Zero(t, h.quiet(), "something new, if ignored")

	pass()
	h.ShardChanged(aggregator.ShardChange{Shard: other, State: aggregator.ShardTaken})
	h.Lagged(aggregator.ShardLag{Shard: one})
	pass()
	assert.Zero(t, h.quiet(), "the other was not read yet")
	h.ShardChanged(aggregator.ShardChange{Shard: other, State: aggregator.ShardFinished})
	h.Lagged(aggregator.ShardLag{Shard: other, Behind: time.Hour}) // late
	pass()
	assert.Equal(t, time.Minute, h.quiet())
	h.Retrying(aggregator.TailRetry{Op: "read the shard", Try: 1, Err: errors.New("throttled")})
	assert.Zero(t, h.quiet())
}

func TestStatus(t *testing.T) {
	h := hear()
	assert.Equal(t, "no shards: others read them, or there are none yet, 0 counted", h.Status().Text())
	for _, shard := range []aggregator.Shard{one, other} {
		h.ShardChanged(aggregator.ShardChange{Shard: shard, State: aggregator.ShardTaken})
	}
	assert.Equal(t, "2 shards, up to date, 0 counted", h.Status().Text())
	h.Lagged(aggregator.ShardLag{Shard: one, Behind: 90 * time.Second, Gathered: 1000})
	h.Lagged(aggregator.ShardLag{Shard: other, Behind: time.Second, Gathered: 500})
	gap := aggregator.Gap{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: noon, Missing: 1500}
	unseen := gap
	unseen.Missing, unseen.Unseen = 0, 1
	h.Processed(aggregator.RecordsProcessed{Result: aggregator.Result{Counted: 1234, Repeated: 2, Gaps: []aggregator.Gap{gap, unseen}}})
	h.Skipped(aggregator.RecordSkipped{Record: aggregator.Record{EventID: "e"}, Tries: 3, Err: errors.New("no number")})
	h.Closed(aggregator.ClosedHour{Hour: noon})
	h.Closed(aggregator.ClosedHour{Hour: noon, Gaps: []aggregator.Gap{gap}})
	h.Closed(aggregator.ClosedHour{Hour: noon, Final: true})
	h.Trimmed(aggregator.ShardTrimmed{Shard: one})
	h.Disordered(aggregator.RecordDisordered{Shard: one, Sequence: "1", After: "2"})
	h.Failed(errors.New("throttled"))
	for try := range 12 {
		h.Retrying(aggregator.TailRetry{Op: "read the shard", Try: try + 1, Err: errors.New("throttled")})
	}
	s := h.Status()
	assert.Equal(t, "2 shards, 1m30s behind, 1,500 waiting, 1,236 read, 1,234 counted, 2 repeated, 2 hours closed, 1 hour final, 2 gaps, 1 skipped, 13 retries", s.Text())
	assert.EqualValues(t, 90_000, s.BehindMS)
	assert.Equal(t, []string{
		"gap: rpm of key-1, gpt-4 in the hour of 2026-01-23 12:00: 1.5 without a record",
		"gap: rpm of key-1, gpt-4 in the hour of 2026-01-23 12:00: 1 bucket whose end nobody saw",
		"record e was skipped after 3 tries: no number",
		"records of shard 1 were gone before they were read: the stream keeps them for a day",
		"shard 1 gave record 1 after 2: it may be taken for repeated",
		"hours could not be closed, which is tried again: throttled",
		"read the shard failed, try 1: throttled",
		"read the shard failed, try 10: throttled",
	}, h.told)
}

// TestManyGapsAreCounted, and a few of them told.
func TestManyGapsAreCounted(t *testing.T) {
	h := hear()
	h.Processed(aggregator.RecordsProcessed{Result: aggregator.Result{Gaps: make([]aggregator.Gap, 100)}})
	assert.EqualValues(t, 100, h.Status().Gaps)
	assert.Len(t, h.told, mostGaps+1)
	assert.Contains(t, h.told[mostGaps], "95 more")
	h.ShardChanged(aggregator.ShardChange{Shard: one, State: aggregator.ShardLost, Err: errors.New("late")})
	assert.Contains(t, h.told[mostGaps+1], "lost")
}

// TestArchiveStatus: what counts for usage is archived there, and nothing says "counted".
func TestArchiveStatus(t *testing.T) {
	h := hear()
	assert.Equal(t, "no shards: others read them, or there are none yet, 0 archived", h.Status().AsArchive().Text())
	h.ShardChanged(aggregator.ShardChange{Shard: one, State: aggregator.ShardTaken})
	h.Lagged(aggregator.ShardLag{Shard: one, Behind: 90 * time.Second, Gathered: 1000})
	h.Processed(aggregator.RecordsProcessed{Result: aggregator.Result{Counted: 1234, Repeated: 2, Ignored: 3}})
	h.Skipped(aggregator.RecordSkipped{Record: aggregator.Record{EventID: "e"}, Tries: 3, Err: errors.New("no number")})
	h.Trimmed(aggregator.ShardTrimmed{Shard: one})
	h.Retrying(aggregator.TailRetry{Op: "process records", Try: 1, Err: errors.New("no space")})
	s := h.Status().AsArchive()
	assert.Equal(t, "1 shard, 1m30s behind, 1,000 waiting, 1,234 archived, 1 skipped, 1 retry", s.Text())
	s.Behind = 0
	assert.Equal(t, ArchiveStatus{Shards: 1, BehindMS: 90_000, Gathered: 1000, Archived: 1234, Repeated: 2, Ignored: 3, Skipped: 1, Trimmed: 1, Retries: 1}, s)
}

// TestQuietOfATableInUse: what is written after it began does not have it wait; what was
// written before does, and so does a shard of which nothing later came until it has settled.
func TestQuietOfATableInUse(t *testing.T) {
	h := hear()
	pass := func() { h.at = h.at.Add(time.Second) }
	lag := func(s aggregator.Shard, last time.Time, gathered int) {
		h.Lagged(aggregator.ShardLag{Shard: s, Last: last, Gathered: gathered, Behind: time.Duration(gathered) * time.Second})
	}
	h.ShardChanged(aggregator.ShardChange{Shard: one, State: aggregator.ShardTaken})
	h.ShardChanged(aggregator.ShardChange{Shard: other, State: aggregator.ShardTaken})
	lag(other, time.Time{}, 0)
	lag(one, noon.Add(-time.Hour), 5)
	pass()
	assert.Zero(t, h.quiet(), "five of before wait")
	lag(one, noon.Add(2*time.Second), 7)
	pass()
	assert.Zero(t, h.quiet(), "they are not counted")
	h.Processed(aggregator.RecordsProcessed{Shard: one, Result: aggregator.Result{Counted: 7}})
	lag(one, noon.Add(2*time.Second), 0)
	lag(one, noon.Add(3*time.Second), 4) // and so on
	assert.Equal(t, 2*time.Second, h.quiet(), "the other shard has been quiet since it was read")
	h.SetEnd(noon.Add(time.Hour))
	lag(other, noon.Add(30*time.Minute), 1)
	assert.Zero(t, h.quiet(), "written before, by DynamoDB's clock")
}

// TestStuck: a step that fails in a row is stuck, and not one that failed before records were
// processed.
func TestStuck(t *testing.T) {
	p := hear()
	full := errors.New("no room")
	p.Retrying(aggregator.TailRetry{Op: "a checkpoint", Try: 3, Err: full})
	assert.NoError(t, p.Stuck(4))
	assert.ErrorIs(t, p.Stuck(3), full)
	assert.NoError(t, p.Stuck(0), "it never gives up")
	p.Processed(aggregator.RecordsProcessed{})
	assert.NoError(t, p.Stuck(3))
}
