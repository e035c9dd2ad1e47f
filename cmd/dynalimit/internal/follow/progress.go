// Package follow tracks the progress of `dynalimit tail`: it observes a Tail and a Closer and
// summarises their work.
package follow

import (
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

// Status is the progress of following a table's stream since the start. It is a plain value.
type Status struct {
	At time.Time `json:"at"`
	// Shards is the number of shards that this process reads.
	Shards int `json:"shards"`
	// Behind is the age of the oldest record that was read and not counted.
	Behind time.Duration `json:"-"`
	// BehindMS is Behind in milliseconds.
	BehindMS int64 `json:"behind_ms"`
	// Gathered is the number of records that wait to be counted.
	Gathered int `json:"gathered"`
	// Counted, Repeated and Ignored count records by their result, Folds the calls that
	// processed them.
	Counted  int64 `json:"counted"`
	Repeated int64 `json:"repeated"`
	Ignored  int64 `json:"ignored"`
	Folds    int64 `json:"folds"`
	// Skipped counts records that can never be counted, Trimmed the times that records were
	// gone before they were read, and Gaps the found gaps: consumption without a record.
	Skipped int64 `json:"skipped"`
	Trimmed int64 `json:"trimmed"`
	Gaps    int64 `json:"gaps"`
	// Retries counts failures that are retried.
	Retries int64 `json:"retries"`
	// HoursClosed and HoursFinal count the hours that were closed and made final.
	HoursClosed int64 `json:"hours_closed"`
	HoursFinal  int64 `json:"hours_final"`
	// Closing is the progress of the hour, day or month being closed, or "".
	Closing string `json:"closing,omitempty"`
}

// Progress observes a Tail and a Closer. Make one with New. It is safe for concurrent use.
type Progress struct {
	now  func() time.Time
	tell func(string)

	mu     sync.Mutex
	status Status
	shards map[aggregator.Shard]*shard
	// taken is true once a shard was read.
	taken bool
	// quiet is the time since which no shard has come or gone and nothing has failed.
	quiet time.Time
	// began is the instant up to which to read the shards.
	began time.Time
	// failed is the last failure. It is nil once records were processed afterwards.
	failed *aggregator.TailRetry
}

// shard is a shard that this process reads.
type shard struct {
	lag *aggregator.ShardLag // nil before the first read
	// quiet is the time since which no record is known to wait in the shard. past is true once
	// the shard was read and counted beyond the start of this process.
	quiet time.Time
	past  bool
}

// New returns a Progress that counts from now on, with no shards. now must be a running clock. tell is called
// with notes for operators, one line each, outside the lock.
func New(now func() time.Time, tell func(string)) *Progress {
	return &Progress{now: now, tell: tell, shards: map[aggregator.Shard]*shard{}, quiet: now(), began: now()}
}

// Observer returns a TailObserver with methods of p as functions, so that a Tail's work is counted in p.
func (p *Progress) Observer() aggregator.TailObserver {
	return aggregator.TailObserver{
		ShardChanged: p.ShardChanged, Lagged: p.Lagged, Processed: p.Processed, Skipped: p.Skipped,
		Trimmed: p.Trimmed, Disordered: p.Disordered, Retrying: p.Retrying,
	}
}

// Status returns the counts so far. It adds the number of shards that are read now, the largest lag among them
// and the sum of their waiting records.
func (p *Progress) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Shards = len(p.shards)
	for _, r := range p.shards {
		if r.lag != nil {
			s.Behind, s.Gathered = max(s.Behind, r.lag.Behind), s.Gathered+r.lag.Gathered
		}
	}
	s.BehindMS = s.Behind.Milliseconds()
	return s
}

// SetEnd sets the instant, by DynamoDB's clock, up to which a tail that does not follow on reads the shards.
// Without it, that is the instant of New.
func (p *Progress) SetEnd(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = began
}

// Quiet returns the time since a record from before the end of SetEnd waited, a shard came or went, or a step
// failed. It is 0 while a record waits. It returns false if no shard was ever read here: then other processes
// read them.
func (p *Progress) Quiet() (since time.Duration, reading bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since = p.now().Sub(p.quiet)
	for _, r := range p.shards {
		switch {
		case r.past:
		case r.isWaiting():
			return 0, true
		default:
			since = min(since, p.now().Sub(r.quiet))
		}
	}
	return since, p.taken
}

// Stuck returns the last error of a step of the tail that failed at least tries times in a row, with no
// record processed meanwhile. It returns nil if no step did, or if tries is 0.
func (p *Progress) Stuck(tries int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil || tries == 0 || p.failed.Try < tries {
		return nil
	}
	return fmt.Errorf("%s failed %d times in a row: %w; the next run goes on from the last checkpoint", p.failed.Op, p.failed.Try, p.failed.Err)
}

// isWaiting reports whether a record waits in the shard, by its last lag: it is behind or has gathered records.
// It is true before the first lag is known.
func (r *shard) isWaiting() bool { return r.lag == nil || r.lag.Behind > 0 || r.lag.Gathered > 0 }

// markActive restarts the time of Quiet, because a shard came or went, or a step failed. The caller holds p.mu.
func (p *Progress) markActive() { p.quiet = p.now() }

// updateAndPrint calls a function, which changes p, under p.mu. It passes the notes that the function formatted
// with say to p.tell, after it has released the lock.
func (p *Progress) updateAndPrint(what func(say func(format string, args ...any))) {
	var lines []string
	p.mu.Lock()
	what(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	p.mu.Unlock()
	for _, line := range lines {
		p.tell(line)
	}
}

// ShardChanged implements aggregator.TailObserver. It adds a taken shard and removes others, and prints a note
// about a lost one. It restarts the time of Quiet.
func (p *Progress) ShardChanged(e aggregator.ShardChange) {
	p.updateAndPrint(func(say func(string, ...any)) {
		p.markActive()
		if e.State == aggregator.ShardTaken {
			p.shards[e.Shard], p.taken = &shard{quiet: p.now()}, true
			return
		}
		delete(p.shards, e.Shard)
		if e.State == aggregator.ShardLost {
			say("shard %s was lost to another process, which goes on with it: %v", e.Shard.ID, e.Err)
		}
	})
}

// Lagged implements aggregator.TailObserver. It stores the lag of a shard, when records last waited in it, and
// whether it is read beyond the end of SetEnd. It ignores a shard that is not read here.
func (p *Progress) Lagged(e aggregator.ShardLag) {
	p.updateAndPrint(func(func(string, ...any)) {
		r := p.shards[e.Shard]
		if r == nil {
			return
		}
		if r.isWaiting() || e.Behind > 0 || e.Gathered > 0 || !e.Last.Equal(r.lag.Last) {
			r.quiet = p.now()
		}
		r.lag = &e
		r.past = r.past || e.Gathered == 0 && e.Last.After(p.began)
	})
}

// Processed implements aggregator.TailObserver. It counts the processed records by their result and one fold,
// counts and prints gaps, and forgets the failure that Stuck would return.
func (p *Progress) Processed(e aggregator.RecordsProcessed) {
	p.updateAndPrint(func(say func(string, ...any)) {
		p.status.Folds++
		p.failed = nil
		p.status.Counted += int64(e.Result.Counted)
		p.status.Repeated += int64(e.Result.Repeated)
		p.status.Ignored += int64(e.Result.Ignored)
		p.reportGaps(e.Result.Gaps, say)
	})
}

// reportGaps counts gaps in p.status and passes the first mostGaps of them to say, and the number of the
// others. The caller holds p.mu.
func (p *Progress) reportGaps(gaps []aggregator.Gap, say func(string, ...any)) {
	p.status.Gaps += int64(len(gaps))
	for i, g := range gaps {
		if i == mostGaps {
			say("and %d more gaps: 'dynalimit usage list' shows their amounts", len(gaps)-i)
			return
		}
		say("%s", gapText(g))
	}
}

// Skipped implements aggregator.TailObserver. It counts a record that can never be processed, and prints a note
// about it.
func (p *Progress) Skipped(e aggregator.RecordSkipped) {
	p.updateAndPrint(func(say func(string, ...any)) {
		p.status.Skipped++
		say("record %s was skipped after %s: %v", e.Record.EventID, fmt.Sprintf("%d tries", e.Tries), e.Err)
	})
}

// Trimmed implements aggregator.TailObserver. It counts an event of records that the stream dropped unread, and
// prints a note about it.
func (p *Progress) Trimmed(e aggregator.ShardTrimmed) {
	p.updateAndPrint(func(say func(string, ...any)) {
		p.status.Trimmed++
		say("records of shard %s were gone before they were read: the stream keeps them for a day", e.Shard.ID)
	})
}

// Disordered implements aggregator.TailObserver. It prints a note about a record that came after a later one of
// its shard, and counts nothing.
func (p *Progress) Disordered(e aggregator.RecordDisordered) {
	p.updateAndPrint(func(say func(string, ...any)) {
		say("shard %s gave record %s after %s: it may be taken for repeated", e.Shard.ID, e.Sequence, e.After)
	})
}

// Retrying implements aggregator.TailObserver. It counts a failure, keeps it for Stuck and restarts the time of
// Quiet. Of consecutive failures it prints the first and each tenth.
func (p *Progress) Retrying(e aggregator.TailRetry) {
	p.updateAndPrint(func(say func(string, ...any)) {
		p.markActive()
		p.status.Retries++
		p.failed = &e
		if e.Try == 1 || e.Try%10 == 0 {
			say("%s failed, try %d: %v", e.Op, e.Try, e.Err)
		}
	})
}

// Closed counts an hour that a Closer closed, or one that it made final. It counts and prints the gaps of a
// final one only, because earlier ones may disappear.
func (p *Progress) Closed(h aggregator.ClosedHour) {
	p.updateAndPrint(func(say func(string, ...any)) {
		if h.Final {
			p.status.HoursFinal++
			p.reportGaps(h.Gaps, say) // gaps of an hour that is not final may disappear
			return
		}
		p.status.HoursClosed++
	})
}

// Failed counts the error of a Closer as a retry, because the Closer tries again, and prints it.
func (p *Progress) Failed(err error) {
	p.updateAndPrint(func(say func(string, ...any)) {
		p.status.Retries++
		say("hours could not be closed, which is tried again: %v", err)
	})
}
