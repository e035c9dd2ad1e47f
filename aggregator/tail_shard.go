package aggregator

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
)

// shardReader reads one shard.
type shardReader struct {
	intake *intake
	id     shards.ID
	arn    string

	iterator *string
	// at is the number of the last record that was read, stored that of the checkpoint.
	at string
	// trimmed means that the records behind at are gone, and reading goes on with the
	// first one that is left.
	trimmed bool
	// last is the highest number so far, as texts compare.
	last string
	// lastAt is the time of the last record that was read, and more whether others may follow it.
	lastAt time.Time
	more   bool

	gathered []Record
	// since is when the first record was gathered.
	since time.Time

	// finished means that the shard has ended and was processed; unprocessed is the error
	// that left gathered records.
	finished    bool
	unprocessed error
}

// shard returns the shard's name for the observer.
func (r *shardReader) shard() Shard { return Shard{Stream: r.id.Stream, ID: r.id.Shard} }

// readShard reads the shard to its end, or until reading ends, and processes its records until held, the
// lease's context, ends. It reports the states of the shard to the observer. It sets r.finished and
// r.unprocessed.
func (r *shardReader) readShard(held, reading context.Context) {
	if !r.retryUntilDone(reading, "begin the shard", func() error { return r.findStart(reading) }) || r.finished {
		return
	}
	callObserver(r.intake.observer, r.intake.observer.ShardChanged, ShardChange{Shard: r.shard(), State: ShardTaken, Held: int(r.intake.reading.Add(1))})
	r.unprocessed = r.followShard(held, reading)
	change := ShardChange{Shard: r.shard(), State: ShardReleased, Held: int(r.intake.reading.Add(-1))}
	if lost := context.Cause(held); r.finished {
		change.State = ShardFinished
	} else if errors.Is(lost, fault.ErrLost) {
		change.State, change.Err = ShardLost, lost
	}
	callObserver(r.intake.observer, r.intake.observer.ShardChanged, change)
}

// reportRetry reports to the observer that op failed for the try-th time, counted from 0, and is tried again.
func (r *shardReader) reportRetry(op string, try int, err error) {
	callObserver(r.intake.observer, r.intake.observer.Retrying, TailRetry{Shard: r.shard(), Op: op, Try: try + 1, Err: err})
}

// followShard reads pages until the shard or reading ends, and processes the gathered records when they are due
// and at the end. It stores the end of a finished shard. It returns an error if records stay unprocessed, and
// drops these from memory.
func (r *shardReader) followShard(held, reading context.Context) error {
	defer r.dropGathered()
	for {
		ended := r.gatherPage(reading)
		if held.Err() != nil {
			return r.unprocessedError(held)
		}
		if ended || reading.Err() != nil || r.isDue() {
			if err := r.processGathered(held); err != nil {
				return err
			}
		}
		switch {
		case ended:
			r.storeEnd(held)
			return nil
		case reading.Err() != nil:
			return nil
		}
		r.pauseReading(reading)
	}
}

// unprocessedError returns the cause of ctx's end if gathered records are left unprocessed, else nil.
func (r *shardReader) unprocessedError(ctx context.Context) error {
	if len(r.gathered) == 0 {
		return nil
	}
	return context.Cause(ctx)
}

// findStart reads the shard's checkpoint and sets r.at, r.last and r.finished by it. For a shard without one it
// stores an empty checkpoint, so that the next Tail reads the shard before its children.
func (r *shardReader) findStart(ctx context.Context) error {
	c, err := r.intake.points.readCheckpoint(ctx, r.id)
	if err != nil {
		return err
	}
	r.at, r.last, r.finished = c.Number, max(r.last, c.Seq), c.Finished
	if c.Seq == "" {
		return r.intake.points.storeCheckpoint(ctx, r.id, schema.TailCheckpoint{})
	}
	return nil
}

// storeEnd stores a checkpoint for the shard's end and reads it back, with retries until ctx ends. Reading it
// sets r.finished. That stays false if another Tail came further: its records must be processed before those of
// the shard's children.
func (r *shardReader) storeEnd(ctx context.Context) {
	r.retryUntilDone(ctx, "write the checkpoint", func() error {
		if err := r.intake.points.storeCheckpoint(ctx, r.id, schema.TailCheckpoint{Number: r.at, Finished: true}); err != nil {
			return err
		}
		return r.findStart(ctx)
	})
}

// retryUntilDone calls do until it succeeds, with pauses, and reports each failure to the observer under the
// name op. It returns false if ctx ends first.
func (r *shardReader) retryUntilDone(ctx context.Context, op string, do func() error) bool {
	for try := 0; ctx.Err() == nil; try++ {
		err := do()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			r.reportRetry(op, try, err)
		}
		_ = pauses.Pause(ctx, try)
	}
	return false
}

// isDue reports whether the oldest gathered record has waited for FoldEvery.
func (r *shardReader) isDue() bool {
	return len(r.gathered) > 0 && time.Since(r.since) >= r.intake.options.FoldEvery
}

// pauseReading waits for a random time around options.Poll, or until ctx ends. It waits less if the shard has
// more records, or if gathered ones become due.
func (r *shardReader) pauseReading(ctx context.Context) {
	d := r.intake.options.Poll
	if r.more {
		d = min(d, readAgain)
	}
	d = d*3/4 + rand.N(d/2+1)
	if len(r.gathered) > 0 {
		d = min(d, max(0, r.intake.options.FoldEvery-time.Since(r.since)))
	}
	_ = ddb.Sleep(ctx, d)
}

// reserveRoom reserves room for the records of one read: an equal share, or more for a shard with more to read.
// It waits for room until ctx ends, but not if records are gathered: then it makes them due. It returns the
// number of records, 0 without room.
func (r *shardReader) reserveRoom(ctx context.Context) (limit int64) {
	if limit = r.intake.readLimit(1); r.more && r.intake.room.TryAcquire(limit) {
		return limit
	}
	switch limit = r.intake.readLimit(r.intake.reading.Load()); {
	case r.intake.room.TryAcquire(limit):
		return limit
	case len(r.gathered) > 0:
		r.since = time.Time{} // due
		return 0
	case r.intake.room.Acquire(ctx, limit) != nil: // others get none before, and process early
		return 0
	}
	return limit
}

// gatherPage reads one page of the shard and appends its records to r.gathered, up to the reserved room. It
// sets r.more, reports the lag, and returns true at the end of the shard.
func (r *shardReader) gatherPage(ctx context.Context) (ended bool) {
	limit := r.reserveRoom(ctx)
	if limit == 0 {
		return false
	}
	records, ended := r.readPage(ctx, int32(limit))
	kept := r.gatherRecords(records)
	r.intake.room.Release(limit - int64(kept))
	r.more = !r.lastAt.IsZero() && len(records) > 0 && (len(records) == int(limit) || r.intake.options.Now().Sub(r.lastAt) > recent)
	r.reportLag()
	return ended
}

// readPage reads one page of at most limit records, with retries until ctx ends, and moves r.iterator. It
// returns true at the end of the shard, or if the shard is gone. It reports lost records, after which it sets
// r.trimmed, and failures to the observer.
func (r *shardReader) readPage(ctx context.Context, limit int32) (records []streamtypes.Record, ended bool) {
	for try := 0; ctx.Err() == nil; try++ {
		out, err := r.requestRecords(ctx, limit)
		switch {
		case err == nil:
			r.iterator = out.NextShardIterator
			return out.Records, r.iterator == nil
		case ctx.Err() != nil:
			return nil, false
		case isGone(err):
			callObserver(r.intake.observer, r.intake.observer.Trimmed, ShardTrimmed{Shard: r.shard(), After: r.at, Err: err})
			return nil, true
		case isTrimmed(err):
			callObserver(r.intake.observer, r.intake.observer.Trimmed, ShardTrimmed{Shard: r.shard(), After: r.at, Err: err})
			r.trimmed = true
		case !isExpired(err):
			r.reportRetry("read the shard", try, err)
		}
		if _, same := errors.AsType[*streamtypes.LimitExceededException](err); !same {
			r.iterator = nil
		}
		_ = pauses.Pause(ctx, try)
	}
	return nil, false
}

// requestRecords requests one page, once. Without r.iterator it first gets one, behind the last read record or
// at the oldest record if later ones are trimmed, and stores it there. It returns ddb.ErrForeign for an answer
// without an iterator or records.
func (r *shardReader) requestRecords(ctx context.Context, limit int32) (*dynamodbstreams.GetRecordsOutput, error) {
	if r.iterator == nil {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &r.arn, ShardId: &r.id.Shard, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if r.at != "" && !r.trimmed {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &r.at
		}
		out, err := boundRequest(ctx, r.intake.stream.api.GetShardIterator, in)
		if err == nil && out.ShardIterator == nil {
			err = ddb.ErrForeign
		}
		if err != nil {
			return nil, err
		}
		r.iterator = out.ShardIterator
	}
	out, err := boundRequest(ctx, r.intake.stream.api.GetRecords, &dynamodbstreams.GetRecordsInput{ShardIterator: r.iterator, Limit: &limit})
	if err == nil && out.Records == nil { // without an iterator it would be the end of the shard
		err = ddb.ErrForeign
	}
	return out, err
}

// gatherRecords appends records to r.gathered and returns the number appended. It moves r.at and r.lastAt, and
// reports disordered and undecodable records to the observer. It drops records of the Tail's own items, which
// would cause further checkpoints.
func (r *shardReader) gatherRecords(records []streamtypes.Record) (kept int) {
	for _, raw := range records {
		record, err := FromStream(r.id.Shard, raw)
		if raw.Dynamodb != nil {
			r.at, r.lastAt = aws.ToString(raw.Dynamodb.SequenceNumber), aws.ToTime(raw.Dynamodb.ApproximateCreationDateTime)
			r.trimmed = false
			r.checkOrder(r.at)
		}
		switch {
		case err != nil:
			callObserver(r.intake.observer, r.intake.observer.Skipped, RecordSkipped{
				Shard: r.shard(), Err: err, Tries: 1,
				Record: Record{EventID: aws.ToString(raw.EventID), Sequence: r.at, Shard: r.id.Shard},
			})
		case !schema.OfTail(schema.KeyOf(record.Keys)):
			if len(r.gathered) == 0 {
				r.since = time.Now()
			}
			r.gathered = append(r.gathered, record)
			kept++
		}
	}
	return kept
}

// checkOrder sets r.last to a sequence number that is higher than it. It reports one that is not higher to the
// observer, and ignores a malformed one.
func (r *shardReader) checkOrder(number string) {
	seq, ok := schema.Sequence(number)
	switch {
	case !ok: // the ProcessFunc refuses the record
	case seq <= r.last:
		callObserver(r.intake.observer, r.intake.observer.Disordered, RecordDisordered{Shard: r.shard(), Sequence: number, After: r.last, Count: r.intake.disordered.Add(1)})
	default:
		r.last = seq
	}
}

// reportLag reports to the observer how far the shard was read, and the age of its oldest gathered record.
// Without one, if the shard has more, it reports the age of the last record.
func (r *shardReader) reportLag() {
	lag := ShardLag{Shard: r.shard(), Last: r.lastAt, Gathered: len(r.gathered)}
	switch {
	case len(r.gathered) > 0:
		lag.Behind = max(0, r.intake.options.Now().Sub(r.gathered[0].Time))
	case r.more:
		lag.Behind = max(0, r.intake.options.Now().Sub(r.lastAt))
	}
	callObserver(r.intake.observer, r.intake.observer.Lagged, lag)
}

// dropGathered empties r.gathered, reports the lag, and then frees their room. In this order the reported sum
// over all shards never exceeds the room.
func (r *shardReader) dropGathered() {
	n := len(r.gathered)
	r.gathered = nil
	r.reportLag()
	r.intake.room.Release(int64(n))
}
