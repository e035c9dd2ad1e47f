package aggregator

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
	"github.com/dynalimit/dynalimit/internal/table"
)

// errRunning is that of a second Run at once.
var errRunning = errors.New("aggregator: this Tail runs already; make another one")

// Tail follows the stream of a table: it reads every shard, parents before their children,
// and has the records processed. Of several one works, under a lease, and the others stand
// by: one that dies is replaced after TailOptions.Hold. Make one with NewTail, and call Run.
// How far it came is stored in the table after records were processed, so that some come again
// when a process ends in between. Where one process is not enough, use the function of AWS
// Lambda instead.
type Tail struct {
	table   *table.Table
	clock   *ddb.Clock
	keys    schema.TailKeys
	intake  *intake
	running atomic.Bool
}

// NewTail returns a Tail of the stream of a table, which needs the view NEW_AND_OLD_IMAGES.
// It asks for nothing before Run. It fails with a *ValidationError for bad input.
func NewTail(streams StreamsAPI, client TailDynamoDB, tableName string, process ProcessFunc, opts *TailOptions) (*Tail, error) {
	o := TailOptions{}
	if opts != nil {
		o = *opts
	}
	switch {
	case problem.IsNil(streams):
		return nil, invalid("streams", "is nil; give a client of DynamoDB Streams")
	case problem.IsNil(client):
		return nil, invalid("client", "is nil; give a client of DynamoDB")
	case tableName == "":
		return nil, invalid("table", "is empty; give the name of the table whose stream is read")
	case process == nil:
		return nil, invalid("process", "is nil; give Processor.Process, or another function for the records")
	}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	clock := ddb.NewClock(o.Now, true)
	store := ddb.Watch(tailClient{TailDynamoDB: client}, nil, clock, requestTimeout)
	of, keys := &table.Table{Client: store, Name: tableName}, schema.TailKeys{Name: o.Name}
	return &Tail{table: of, clock: clock, keys: keys, intake: &intake{
		stream: tableStream{streams, store, of}, points: checkpoints{of, keys, o.Now}, process: process, options: o,
		observer: &shielded{TailObserver: o.Observer}, room: semaphore.NewWeighted(int64(o.MaxRecords)),
	}}, nil
}

// Run follows the stream until ctx ends, or stands by while another Tail does. Then it processes its
// gathered records, stores a checkpoint and releases the stream. That takes at most TailOptions.Drain,
// and some more if DynamoDB does not answer.
//
// It returns nil, or an error if records were left, which the next Tail reads again. A panic of the
// Observer ends nothing, but Run returns the first one as an error at its end. Run fails at once with a
// *TableError if the table has no stream with usage, with DynamoDB's error if it may not be read, with a
// *ValidationError without a ctx, and while this Tail runs already. It retries later failures, and
// reports them to the observer.
func (t *Tail) Run(ctx context.Context) error {
	if err := checkCalled(ctx, t != nil && t.intake != nil, "tail", "NewTail"); err != nil {
		return err
	}
	if !t.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer t.running.Store(false)
	err := t.followStream(ctx)
	if panicked := t.intake.observer.takePanic(); panicked != nil {
		return errors.Join(err, panicked)
	}
	return err
}

// followStream takes the lease and reads the stream, again and again, until ctx ends; read records may be
// processed for options.Drain more. While another Tail has the lease, it tries every lookEvery, and it reports
// failures to the observer. It returns an error for a missing stream at once, and at the end for unprocessed
// records.
func (t *Tail) followStream(ctx context.Context) error {
	arn, err := t.findStream(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(t.intake.options.Drain, cancel) })()
	for failures := 0; ctx.Err() == nil; {
		r := &hold{intake: t.intake, arn: arn, readers: map[shards.ID]*shardReader{}, ended: make(chan *shardReader), listPause: listSoon}
		err := t.lease().Do(work, 0, nil, func(held context.Context) error {
			failures = 0
			return r.readShards(ctx, held)
		})
		switch {
		case ctx.Err() != nil:
			return r.left
		case errors.Is(err, fault.ErrLocked):
			failures = 0
			_ = ddb.Sleep(ctx, lookEvery)
		case !errors.Is(err, fault.ErrLost): // each shard has reported it
			failures++
			callObserver(t.intake.observer, t.intake.observer.Retrying, TailRetry{Op: "take the stream", Try: failures, Err: err})
			_ = pauses.Pause(ctx, failures)
		}
	}
	return nil
}

// lease returns a new lock, not taken yet. It lets one Tail at a time read all shards.
func (t *Tail) lease() *lock.Lock {
	return &lock.Lock{
		Table: t.table, Key: t.keys.Lease(), Name: "the stream of " + t.table.Name, Holder: t.intake.options.Holder, Hold: t.intake.options.Hold, Now: t.clock.Now,
	}
}

// findStream returns the ARN of the stream after checking that its shards can be listed. It retries until ctx
// ends and reports failures to the observer. It fails at once for a missing stream or permission.
func (t *Tail) findStream(ctx context.Context) (string, error) {
	for try := 0; ; try++ {
		arn, err := t.intake.stream.findStream(ctx)
		if err == nil {
			_, err = t.intake.stream.shardsOf(ctx, arn)
		}
		switch {
		case err == nil:
			return arn, nil
		case ctx.Err() == nil && (errors.Is(err, fault.ErrTable) || ddb.Classify(err, ctx).Setting):
			return "", err
		}
		if !pauses.Pause(ctx, try) {
			return "", ctx.Err()
		}
		callObserver(t.intake.observer, t.intake.observer.Retrying, TailRetry{Op: "find the stream", Try: try + 1, Err: err})
	}
}
