package aggregator

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	defaultTail      = "usage"
	defaultFoldEvery = time.Minute
	longestFoldEvery = 5 * time.Minute
	defaultGathered  = 10_000
	defaultHold      = 30 * time.Second
	defaultPoll      = time.Second
	shortestPoll     = 10 * time.Millisecond
	longestPoll      = time.Minute
	defaultDrain     = 10 * time.Second
	longestDrain     = 10 * time.Minute
	defaultTries     = 3
	maxHolder        = 256
)

// ProcessFunc processes records of a stream, which come in the order of each
// item, and may come again. Result.Failures are the failed ones: the
// readable ones are given again, with their successors, until they succeed. An error counts for all of
// them, and so does a panic, which is reported with its place. Processor.Process is one. A Tail
// does not bound the time of a call: give each request in it a bound of its own.
type ProcessFunc func(ctx context.Context, records []Record) (Result, error)

// TailOptions configures a Tail. The zero value gives the defaults that the fields name.
type TailOptions struct {
	// Name is the name of the checkpoints and the lease. Tails with the same purpose
	// need the same name, others another. 1 to 64 of a to z, and - after the first
	// letter. DynamoDB allows two readers of a shard at once. Defaults to "usage".
	Name string
	// Holder names this Tail in the lease, for operators, such as a host's name, in at
	// most 256 bytes. It need not be unique. Defaults to "tail".
	Holder string
	// FoldEvery is the time to gather records of a shard before they are processed
	// together: a longer one means fewer writes and later usage. At most 5
	// minutes; a negative one processes each read at once. Defaults to 1 minute.
	FoldEvery time.Duration
	// MaxRecords bounds how many records are gathered, over all shards: where there are
	// more, they are processed early. Defaults to 10,000.
	MaxRecords int
	// Hold is the length of the lease, which is renewed three times as
	// often. After the death of a Tail its shards wait for another for Hold, and at most 7 s more.
	// 1 s to 1 hour. Defaults to 30 s.
	Hold time.Duration
	// Poll is the pause before the next read of a shard without new records. It
	// varies by a quarter. 10 ms to 1 minute, though DynamoDB serves five reads of a shard in
	// a second. Defaults to 1 s.
	Poll time.Duration
	// Tries is how often a record is given that can never be processed
	// (Failure.Unreadable) before it is skipped. Defaults to 3.
	Tries int
	// Drain bounds the time for which Run goes on after its ctx has ended, to process
	// gathered records. At most 10 minutes. Defaults to 10 s.
	Drain time.Duration
	// Now is the clock of lag, and of the lease until DynamoDB has answered: then it is
	// corrected by the time of its answers. Defaults to time.Now.
	Now func() time.Time
	// Observer receives the events. Defaults to none.
	Observer TailObserver
}

// setDefaults sets the unset options to their defaults. It then returns a *ValidationError for the first
// invalid option, or nil.
func (o *TailOptions) setDefaults() error {
	setDefault(&o.Name, defaultTail)
	setDefault(&o.Holder, "tail")
	setDefault(&o.FoldEvery, defaultFoldEvery)
	setDefault(&o.MaxRecords, defaultGathered)
	setDefault(&o.Hold, defaultHold)
	setDefault(&o.Poll, defaultPoll)
	setDefault(&o.Tries, defaultTries)
	setDefault(&o.Drain, defaultDrain)
	if o.Now == nil {
		o.Now = time.Now
	}
	if reason := schema.CheckLease(o.Name); reason != "" {
		return invalid("options.Name", "%s", reason)
	}
	if reason := ddb.CheckSource(o.Now); reason != "" {
		return invalid("options.Now", "%s", reason)
	}
	return o.checkBounds()
}

// checkBounds returns a *ValidationError for the first option outside its bounds, or nil. Defaults must be set.
func (o *TailOptions) checkBounds() error {
	switch {
	case !utf8.ValidString(o.Holder):
		return invalid("options.Holder", "is %q, which is no text in UTF-8; give one", o.Holder)
	case len(o.Holder) > maxHolder:
		return invalid("options.Holder", "has %d bytes; give at most %d", len(o.Holder), maxHolder)
	case o.FoldEvery > longestFoldEvery:
		return invalid("options.FoldEvery", "is %v; give at most %v, or a negative one for at once", o.FoldEvery, longestFoldEvery)
	case o.MaxRecords < 0:
		return invalid("options.MaxRecords", "is %d; give at least 1, or 0 for the default", o.MaxRecords)
	case o.Hold < lock.ShortestHold || o.Hold > lock.LongestHold:
		return invalid("options.Hold", "is %v; give %v to %v", o.Hold, lock.ShortestHold, lock.LongestHold)
	case o.Poll < shortestPoll || o.Poll > longestPoll:
		return invalid("options.Poll", "is %v; give %v to %v, or 0 for the default", o.Poll, shortestPoll, longestPoll)
	case o.Tries < 0:
		return invalid("options.Tries", "is %d; give at least 1, or 0 for the default", o.Tries)
	case o.Drain < 0 || o.Drain > longestDrain:
		return invalid("options.Drain", "is %v; give at most %v, or 0 for the default", o.Drain, longestDrain)
	}
	return nil
}

// setDefault sets *v to the default to if *v is the zero value.
func setDefault[T comparable](v *T, to T) {
	var none T
	if *v == none {
		*v = to
	}
}
