// Package follow is what `dynalimit tail` tells of itself: it hears what a Tail and a Closer
// do, and sums it up.
package follow

import (
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

// Status is how far a table's stream was followed, since it was begun. It is a plain value.
type Status struct {
	At time.Time `json:"at"`
	// Shards is how many are read by this process.
	Shards int `json:"shards"`
	// Behind is how long the oldest record waits of those that were read and not counted.
	Behind time.Duration `json:"-"`
	// BehindMS is Behind in milliseconds.
	BehindMS int64 `json:"behind_ms"`
	// Gathered is how many records wait to be counted.
	Gathered int `json:"gathered"`
	// Counted, Repeated and Ignored are what became of records, Folds in how many calls.
	Counted  int64 `json:"counted"`
	Repeated int64 `json:"repeated"`
	Ignored  int64 `json:"ignored"`
	Folds    int64 `json:"folds"`
	// Skipped are records that can never be counted, Trimmed how often records were gone
	// before they were read, and Gaps the consumption without a record that was found.
	Skipped int64 `json:"skipped"`
	Trimmed int64 `json:"trimmed"`
	Gaps    int64 `json:"gaps"`
	// Retries is how often something failed that is tried again.
	Retries int64 `json:"retries"`
	// HoursClosed and HoursFinal are the hours that were closed, and made final.
	HoursClosed int64 `json:"hours_closed"`
	HoursFinal  int64 `json:"hours_final"`
	// Closing is the progress of the hour, day or month that is closed now; "" while none is.
	Closing string `json:"closing,omitempty"`
}

// Progress hears what happens. Make one with New. It is safe for concurrent use.
type Progress struct {
	now  func() time.Time
	tell func(string)

	mu     sync.Mutex
	status Status
	shards map[aggregator.Shard]*shard
	// taken says that a shard was read, ever.
	taken bool
	// quiet is since when no shard has come or gone, and nothing failed.
	quiet time.Time
	// began is the instant up to which shards are to be read.
	began time.Time
	// failed is the last failure, nil once records were processed since.
	failed *aggregator.TailRetry
}

// shard is one that is read.
type shard struct {
	lag *aggregator.ShardLag // nil before the first read
	// quiet is since when nothing has been known to wait there; past says that it was read,
	// and counted, beyond the instant at which this began.
	quiet time.Time
	past  bool
}

// New returns a Progress, with a clock that does not stand still; tell is told, line by
// line, what somebody should know of.
func New(now func() time.Time, tell func(string)) *Progress {
	return &Progress{now: now, tell: tell, shards: map[aggregator.Shard]*shard{}, quiet: now(), began: now()}
}

// Observer has a Tail tell of what happens.
func (p *Progress) Observer() aggregator.TailObserver {
	return aggregator.TailObserver{
		ShardChanged: p.ShardChanged, Lagged: p.Lagged, Processed: p.Processed, Skipped: p.Skipped,
		Trimmed: p.Trimmed, Disordered: p.Disordered, Retrying: p.Retrying,
	}
}

// Status is how things are.
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

// Until says up to which instant shards are to be read, by DynamoDB's clock.
func (p *Progress) Until(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = began
}

// Quiet is how long nothing has been known to wait that was written before this began, and
// whether a shard was read at all: if none was, others read them.
func (p *Progress) Quiet() (since time.Duration, reading bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since = p.now().Sub(p.quiet)
	for _, r := range p.shards {
		switch {
		case r.past:
		case r.waits():
			return 0, true
		default:
			since = min(since, p.now().Sub(r.quiet))
		}
	}
	return since, p.taken
}

// Stuck returns the error of a step that failed at least tries times in a row while nothing was
// processed. It returns nil if no step did, and always if tries is 0.
func (p *Progress) Stuck(tries int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil || tries == 0 || p.failed.Try < tries {
		return nil
	}
	return fmt.Errorf("%s failed %d times in a row: %w; the next run goes on from the last checkpoint", p.failed.Op, p.failed.Try, p.failed.Err)
}

// waits reports whether something is known to wait in a shard.
func (r *shard) waits() bool { return r.lag == nil || r.lag.Behind > 0 || r.lag.Gathered > 0 }

// stir notes that something happened.
func (p *Progress) stir() { p.quiet = p.now() }

// hear takes something in, and then tells what it says.
func (p *Progress) hear(what func(say func(format string, args ...any))) {
	var lines []string
	p.mu.Lock()
	what(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) })
	p.mu.Unlock()
	for _, line := range lines {
		p.tell(line)
	}
}

// ShardChanged is that of an aggregator.TailObserver.
func (p *Progress) ShardChanged(e aggregator.ShardChange) {
	p.hear(func(say func(string, ...any)) {
		p.stir()
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

// Lagged is that of an aggregator.TailObserver.
func (p *Progress) Lagged(e aggregator.ShardLag) {
	p.hear(func(func(string, ...any)) {
		r := p.shards[e.Shard]
		if r == nil {
			return
		}
		if r.waits() || e.Behind > 0 || e.Gathered > 0 || !e.Last.Equal(r.lag.Last) {
			r.quiet = p.now()
		}
		r.lag = &e
		r.past = r.past || e.Gathered == 0 && e.Last.After(p.began)
	})
}

// Processed is that of an aggregator.TailObserver.
func (p *Progress) Processed(e aggregator.RecordsProcessed) {
	p.hear(func(say func(string, ...any)) {
		p.status.Folds++
		p.failed = nil
		p.status.Counted += int64(e.Result.Counted)
		p.status.Repeated += int64(e.Result.Repeated)
		p.status.Ignored += int64(e.Result.Ignored)
		p.gaps(e.Result.Gaps, say)
	})
}

func (p *Progress) gaps(gaps []aggregator.Gap, say func(string, ...any)) {
	p.status.Gaps += int64(len(gaps))
	for i, g := range gaps {
		if i == mostGaps {
			say("and %d more gaps: 'dynalimit usage list' shows what no record told", len(gaps)-i)
			return
		}
		say("%s", gapText(g))
	}
}

// Skipped is that of an aggregator.TailObserver.
func (p *Progress) Skipped(e aggregator.RecordSkipped) {
	p.hear(func(say func(string, ...any)) {
		p.status.Skipped++
		say("record %s was skipped after %s: %v", e.Record.EventID, fmt.Sprintf("%d tries", e.Tries), e.Err)
	})
}

// Trimmed is that of an aggregator.TailObserver.
func (p *Progress) Trimmed(e aggregator.ShardTrimmed) {
	p.hear(func(say func(string, ...any)) {
		p.status.Trimmed++
		say("records of shard %s were gone before they were read: the stream keeps them for a day", e.Shard.ID)
	})
}

// Disordered is that of an aggregator.TailObserver.
func (p *Progress) Disordered(e aggregator.RecordDisordered) {
	p.hear(func(say func(string, ...any)) {
		say("shard %s gave record %s after %s: it may be taken for repeated", e.Shard.ID, e.Sequence, e.After)
	})
}

// Retrying is that of an aggregator.TailObserver. The first of failures in a row is told, and
// each tenth.
func (p *Progress) Retrying(e aggregator.TailRetry) {
	p.hear(func(say func(string, ...any)) {
		p.stir()
		p.status.Retries++
		p.failed = &e
		if e.Try == 1 || e.Try%10 == 0 {
			say("%s failed, try %d: %v", e.Op, e.Try, e.Err)
		}
	})
}

// Closed hears of an hour that a Closer closed.
func (p *Progress) Closed(h aggregator.ClosedHour) {
	p.hear(func(say func(string, ...any)) {
		if h.Final {
			p.status.HoursFinal++
			p.gaps(h.Gaps, say) // those of an hour that is not final may go
			return
		}
		p.status.HoursClosed++
	})
}

// Failed hears why a Closer could not close what is due.
func (p *Progress) Failed(err error) {
	p.hear(func(say func(string, ...any)) {
		p.status.Retries++
		say("hours could not be closed, which is tried again: %v", err)
	})
}
