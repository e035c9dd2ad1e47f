package aggregator

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
)

const (
	// mostRead is how many records DynamoDB gives at once.
	mostRead = 1000
	// readAgain is the pause before a shard is read again that has more: DynamoDB allows
	// five reads of a shard in a second.
	readAgain = 200 * time.Millisecond
	// recent is how old the last record may be of a shard that is read to its end.
	recent = 5 * time.Second
)

// reader reads one shard for as long as it has the lease.
type reader struct {
	*Tail
	id  shards.ID
	arn string
	// going ends when the shard is to be left to others.
	going context.Context
	leave context.CancelFunc

	iterator *string
	// at is the number of the last record that was read, stored that of the checkpoint.
	at string
	// trimmed says that what follows at is not there any more, and reading goes on with the
	// first record that is.
	trimmed bool
	// last is the highest number so far, as texts compare.
	last string
	// lastAt is the time of the last record that was read, and more whether others may follow it.
	lastAt time.Time
	more   bool

	gathered []Record
	// since is when the first record was gathered.
	since time.Time

	// finished says that the shard has ended and was processed; unprocessed is why not
	// all that was gathered was.
	finished    bool
	unprocessed error
}

func newReader(work context.Context, t *Tail, arn string, id shards.ID, floor string) *reader {
	r := &reader{Tail: t, id: id, arn: arnOf(arn, id.Stream), last: floor}
	r.going, r.leave = context.WithCancel(work)
	return r
}

// left reports whether the shard is being left to others.
func (r *reader) left() bool { return r.going.Err() != nil }

// shard names the shard to the observer.
func (r *reader) shard() Shard { return Shard{Stream: r.id.Stream, ID: r.id.Shard} }

// run takes the lease and reads the shard, unless somebody else does.
func (r *reader) run(ctx context.Context) {
	defer r.leave()
	key := r.keys.Lease(r.id)
	taken := false
	err := r.lease(key, "shard "+r.id.Shard).Do(ctx, 0, nil, func(ctx context.Context, _ int64) error {
		if err := r.start(ctx); err != nil || r.finished {
			return err
		}
		taken = true
		r.observer.ShardChanged(ShardChange{Shard: r.shard(), State: ShardTaken, Held: int(r.reading.Add(1))})
		return r.follow(ctx)
	})
	if !taken {
		if r.finished {
			r.forget(ctx, key)
			return
		}
		if !errors.Is(err, lock.ErrHeld) && !r.left() {
			r.retrying("take the shard", 0, err)
		}
		return
	}
	change := ShardChange{Shard: r.shard(), State: ShardReleased, Held: int(r.reading.Add(-1))}
	switch {
	case r.finished:
		change.State = ShardFinished
		r.forget(ctx, key)
	case errors.Is(err, lock.ErrLost):
		change.State, change.Err = ShardLost, err
	}
	r.observer.ShardChanged(change)
}

func (r *reader) retrying(op string, try int, err error) {
	r.observer.Retrying(TailRetry{Shard: r.shard(), Op: op, Try: try + 1, Err: err})
}

// follow reads the shard until it ends, or is to be left. The context is that of the lease.
func (r *reader) follow(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(r.going, stop)()
	defer r.drop()
	for {
		ended := r.read(reading)
		if ctx.Err() != nil {
			r.unprocessed = r.lostInHand(ctx)
			return context.Cause(ctx)
		}
		if ended || reading.Err() != nil || r.due() {
			if r.unprocessed = r.fold(ctx); r.unprocessed != nil {
				return r.unprocessed
			}
		}
		switch {
		case ended:
			return r.end(ctx)
		case reading.Err() != nil:
			return nil
		}
		r.pause(reading)
	}
}

// lostInHand is an error if something is left that was gathered.
func (r *reader) lostInHand(ctx context.Context) error {
	if len(r.gathered) == 0 {
		return nil
	}
	return context.Cause(ctx)
}

// start finds out where to begin, and whether somebody came to the end meanwhile.
func (r *reader) start(ctx context.Context) error {
	c, err := r.checkpoint(ctx, r.id)
	r.at, r.last, r.finished = c.Number, max(r.last, c.Seq), c.Finished
	return err
}

// end stores that the shard was processed to its end. It is not finished if somebody came
// further meanwhile: they may have records in hand that are to be processed before those of
// its children.
func (r *reader) end(ctx context.Context) error {
	if !r.insist(ctx, "write the checkpoint", func() error {
		if err := r.advance(ctx, r.id, schema.TailCheckpoint{Number: r.at, Finished: true}); err != nil {
			return err
		}
		return r.start(ctx)
	}) {
		return context.Cause(ctx)
	}
	return nil
}

// insist does something until it succeeds; false if ctx ended before.
func (r *reader) insist(ctx context.Context, op string, do func() error) bool {
	for try := 0; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		if r.retrying(op, try, err); !pauses.Pause(ctx, try) {
			return false
		}
	}
}

// due reports whether what was gathered is to be processed.
func (r *reader) due() bool {
	return len(r.gathered) > 0 && time.Since(r.since) >= r.options.FoldEvery
}

// pause waits until the shard is to be read again, or ctx ends.
func (r *reader) pause(ctx context.Context) {
	d := r.options.Poll
	if r.more {
		d = min(d, readAgain)
	}
	d = d*3/4 + rand.N(d/2+1)
	if len(r.gathered) > 0 {
		d = min(d, max(0, r.options.FoldEvery-time.Since(r.since)))
	}
	_ = ddb.Sleep(ctx, d)
}

// reserve reserves room for what a read may bring: a share of it, or more for a shard that
// has more. It waits for it, after what the shard gathered itself; 0 means that there is none.
func (r *reader) reserve(ctx context.Context) (limit int64) {
	if limit = r.share(1); r.more && r.room.TryAcquire(limit) {
		return limit
	}
	switch limit = r.share(r.reading.Load()); {
	case r.room.TryAcquire(limit):
		return limit
	case len(r.gathered) > 0:
		r.since = time.Time{} // due
		return 0
	case r.room.Acquire(ctx, limit) != nil: // others get none before, and process early
		return 0
	}
	return limit
}

// share is how many records are asked for at once where so many shards are read: all of them
// ask for no more than half of what may be gathered.
func (t *Tail) share(shards int64) int64 {
	return max(1, min(mostRead, int64(t.options.MaxRecords)/(2*max(1, shards))))
}

// read reads the shard once, and reports whether it has ended.
func (r *reader) read(ctx context.Context) (ended bool) {
	limit := r.reserve(ctx)
	if limit == 0 {
		return false
	}
	records, ended := r.page(ctx, int32(limit))
	kept := r.gather(records)
	r.room.Release(limit - int64(kept))
	r.more = !r.lastAt.IsZero() && len(records) > 0 && (len(records) == int(limit) || r.options.Now().Sub(r.lastAt) > recent)
	r.lagged()
	return ended
}

// page reads records, whatever it takes. It reports whether the shard has ended.
func (r *reader) page(ctx context.Context, limit int32) (records []streamtypes.Record, ended bool) {
	for try := 0; ctx.Err() == nil; try++ {
		out, err := r.records(ctx, limit)
		switch {
		case err == nil:
			r.iterator = out.NextShardIterator
			return out.Records, r.iterator == nil
		case ctx.Err() != nil:
			return nil, false
		case isGone(err):
			r.observer.Trimmed(ShardTrimmed{Shard: r.shard(), After: r.at, Err: err})
			return nil, true
		case isTrimmed(err):
			r.observer.Trimmed(ShardTrimmed{Shard: r.shard(), After: r.at, Err: err})
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
func (r *reader) records(ctx context.Context, limit int32) (*dynamodbstreams.GetRecordsOutput, error) {
	if r.iterator == nil {
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &r.arn, ShardId: &r.id.Shard, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if r.at != "" && !r.trimmed {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &r.at
		}
		out, err := bounded(ctx, r.streams.GetShardIterator, in)
		if err != nil {
			return nil, err
		}
		r.iterator = out.ShardIterator
	}
	return bounded(ctx, r.streams.GetRecords, &dynamodbstreams.GetRecordsInput{ShardIterator: r.iterator, Limit: &limit})
}

// gather keeps records to be processed together, and returns how many. What followers of
// streams remember is not kept: else an idle table would keep itself busy.
func (r *reader) gather(records []streamtypes.Record) (kept int) {
	for _, raw := range records {
		record, err := FromStream(r.id.Shard, raw)
		if raw.Dynamodb != nil {
			r.at, r.lastAt = aws.ToString(raw.Dynamodb.SequenceNumber), aws.ToTime(raw.Dynamodb.ApproximateCreationDateTime)
			r.trimmed = false
			r.ordered(r.at)
		}
		switch {
		case err != nil:
			r.observer.Skipped(RecordSkipped{
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

// ordered notes a sequence number, and tells if it is not above those before it.
func (r *reader) ordered(number string) {
	seq, ok := schema.Sequence(number)
	switch {
	case !ok: // whoever processes the record refuses it
	case seq <= r.last:
		r.observer.Disordered(RecordDisordered{Shard: r.shard(), Sequence: number, After: r.last, Count: r.disordered.Add(1)})
	default:
		r.last = seq
	}
}

// lagged tells how far the shard was read.
func (r *reader) lagged() {
	lag := ShardLag{Shard: r.shard(), Last: r.lastAt, Gathered: len(r.gathered)}
	switch {
	case len(r.gathered) > 0:
		lag.Behind = max(0, r.options.Now().Sub(r.gathered[0].Time))
	case r.more:
		lag.Behind = max(0, r.options.Now().Sub(r.lastAt))
	}
	r.observer.Lagged(lag)
}

// drop gives the room back of what was gathered.
func (r *reader) drop() {
	r.room.Release(int64(len(r.gathered)))
	r.gathered = nil
}
