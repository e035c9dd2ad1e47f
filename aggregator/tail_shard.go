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

// shard names the shard to the observer.
func (r *shardReader) shard() Shard { return Shard{Stream: r.id.Stream, ID: r.id.Shard} }

// run reads the shard until it or reading ends, and processes its records under the lease,
// which has the context held.
func (r *shardReader) run(held, reading context.Context) {
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

func (r *shardReader) retrying(op string, try int, err error) {
	callObserver(r.intake.observer, r.intake.observer.Retrying, TailRetry{Shard: r.shard(), Op: op, Try: try + 1, Err: err})
}

// followShard reads and processes. The error is the reason for unprocessed records.
func (r *shardReader) followShard(held, reading context.Context) error {
	defer r.dropGathered()
	for {
		ended := r.read(reading)
		if held.Err() != nil {
			return r.lostInHand(held)
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
		r.pause(reading)
	}
}

// lostInHand is an error if something is left that was gathered.
func (r *shardReader) lostInHand(ctx context.Context) error {
	if len(r.gathered) == 0 {
		return nil
	}
	return context.Cause(ctx)
}

// findStart finds the position to begin at, and whether another Tail came to the end. It stores that the
// shard was begun: the next Tail then reads it before its children, also if it is
// not listed.
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

// storeEnd stores that the shard was processed to its end. It is not finished if another Tail came
// further: this one is not alone any more, and the other's records must be processed before the
// records of its children.
func (r *shardReader) storeEnd(ctx context.Context) {
	r.retryUntilDone(ctx, "write the checkpoint", func() error {
		if err := r.intake.points.storeCheckpoint(ctx, r.id, schema.TailCheckpoint{Number: r.at, Finished: true}); err != nil {
			return err
		}
		return r.findStart(ctx)
	})
}

// retryUntilDone does something until it succeeds; false if ctx ended before. Then it does nothing.
func (r *shardReader) retryUntilDone(ctx context.Context, op string, do func() error) bool {
	for try := 0; ctx.Err() == nil; try++ {
		err := do()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			r.retrying(op, try, err)
		}
		_ = pauses.Pause(ctx, try)
	}
	return false
}

// isDue reports whether to process the gathered records.
func (r *shardReader) isDue() bool {
	return len(r.gathered) > 0 && time.Since(r.since) >= r.intake.options.FoldEvery
}

// pause waits until the shard is to be read again, or ctx ends.
func (r *shardReader) pause(ctx context.Context) {
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

// reserve reserves room for a read: a share of it, or more for a shard that
// has more. It waits for room, after processing the shard's own gathered records; 0 means that there is none.
func (r *shardReader) reserve(ctx context.Context) (limit int64) {
	if limit = r.intake.share(1); r.more && r.intake.room.TryAcquire(limit) {
		return limit
	}
	switch limit = r.intake.share(r.intake.reading.Load()); {
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

// read reads the shard once, and reports whether it has ended.
func (r *shardReader) read(ctx context.Context) (ended bool) {
	limit := r.reserve(ctx)
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

// readPage reads records, and retries until it succeeds. It reports whether the shard has ended.
func (r *shardReader) readPage(ctx context.Context, limit int32) (records []streamtypes.Record, ended bool) {
	for try := 0; ctx.Err() == nil; try++ {
		out, err := r.records(ctx, limit)
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
			r.retrying("read the shard", try, err)
		}
		if _, same := errors.AsType[*streamtypes.LimitExceededException](err); !same {
			r.iterator = nil
		}
		_ = pauses.Pause(ctx, try)
	}
	return nil, false
}

// records asks for records once, with the iterator that there is or a new one.
func (r *shardReader) records(ctx context.Context, limit int32) (*dynamodbstreams.GetRecordsOutput, error) {
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

// gatherRecords keeps records to be processed together, and returns their number. It drops the records of
// checkpoints: otherwise an idle table would keep itself busy.
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

// checkOrder notes a sequence number, and tells if it is not above those before it.
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

// reportLag tells how far the shard was read.
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

// dropGathered releases the gathered records. It frees the room after the report, so that the reported
// sum over all shards never exceeds the room.
func (r *shardReader) dropGathered() {
	n := len(r.gathered)
	r.gathered = nil
	r.reportLag()
	r.intake.room.Release(int64(n))
}
