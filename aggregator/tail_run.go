package aggregator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
)

const (
	// lookEvery is how often whoever stands by looks at the lease.
	lookEvery = 2 * time.Second
	// listEvery is how often shards are listed; after one ended, sooner.
	listEvery, listSoon = 30 * time.Second, time.Second
)

var (
	// errRunning is that of a second Run at once.
	errRunning = errors.New("aggregator: this Tail runs already; make another one")
	// errOvertaken is that of a Tail that finds it is not alone.
	errOvertaken = errors.New("aggregator: somebody else has read further than the holder of the lease")
)

// Run follows the stream until ctx ends, or stands by while another Tail does. Then it
// processes what it has gathered, stores how far it came and leaves the stream to others, for
// at most TailOptions.Drain, and some more where DynamoDB does not answer. It returns nil; an error if something was left, which is
// read again by whoever comes next, or if the Observer panicked, with the first of what it
// panicked with, which ends nothing. It fails at once with a *TableError if the table has no
// stream that tells of usage, with that of DynamoDB if it may not be read, and with a
// *ValidationError without a ctx. What fails later is tried again, and told to the observer.
func (t *Tail) Run(ctx context.Context) error {
	if err := called(ctx, t != nil && t.process != nil, "tail", "NewTail"); err != nil {
		return err
	}
	if !t.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer t.running.Store(false)
	err := t.follow(ctx)
	if panicked := t.observer.failure(); panicked != nil {
		return errors.Join(err, panicked)
	}
	return err
}

// follow is Run, once nobody else runs.
func (t *Tail) follow(ctx context.Context) error {
	arn, err := t.begin(ctx)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(t.options.Drain, cancel) })()
	for failures := 0; ctx.Err() == nil; {
		r := &run{Tail: t, arn: arn, readers: map[shards.ID]*reader{}, ended: make(chan *reader), listPause: listSoon}
		err := t.lease().Do(work, 0, nil, func(held context.Context) error {
			failures = 0
			return r.read(ctx, held)
		})
		switch {
		case ctx.Err() != nil:
			return r.left
		case errors.Is(err, lock.ErrHeld):
			failures = 0
			_ = ddb.Sleep(ctx, lookEvery)
		case !errors.Is(err, lock.ErrLost): // which each shard has told
			failures++
			t.observer.Retrying(TailRetry{Op: "take the stream", Try: failures, Err: err})
			_ = pauses.Pause(ctx, failures)
		}
	}
	return nil
}

// lease is what one Tail holds at a time, which then reads all shards.
func (t *Tail) lease() *lock.Lock {
	return &lock.Lock{
		Table: t.table, Key: t.keys.Lease(), Name: "the stream of " + t.table.Name, Holder: t.options.Holder, Hold: t.options.Hold, Now: t.clock.Now,
	}
}

// begin finds the stream. It fails for what does not pass by itself, and with the error of
// ctx once that has ended.
func (t *Tail) begin(ctx context.Context) (string, error) {
	for try := 0; ; try++ {
		arn, err := t.source(ctx)
		if err == nil {
			_, err = t.shardsOf(ctx, arn)
		}
		switch {
		case err == nil:
			return arn, nil
		case ctx.Err() == nil && (errors.Is(err, problem.ErrTable) || ddb.Classify(err, ctx).Setting):
			return "", err
		}
		if !pauses.Pause(ctx, try) {
			return "", ctx.Err()
		}
		t.observer.Retrying(TailRetry{Op: "find the stream", Try: try + 1, Err: err})
	}
}

// run is one hold of the lease.
type run struct {
	*Tail
	arn string
	// begun are the shards that somebody began to read, and how far they came.
	begun   map[shards.ID]schema.TailCheckpoint
	readers map[shards.ID]*reader
	// ended gets each reader when it is done.
	ended chan *reader

	listed    []shards.Shard
	listNext  time.Time
	listPause time.Duration
	// failures counts the lists that failed in a row.
	failures int
	// left is an error if something that was gathered was not processed.
	left error
}

// read reads all shards, until ctx ends or the lease, whose context held is.
func (r *run) read(ctx, held context.Context) error {
	reading, stop := context.WithCancel(held)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	begun, err := r.checkpoints(reading)
	if err != nil {
		return err
	}
	r.begun = begun
	for wait := time.Duration(0); r.wait(reading, wait); {
		wait = r.step(held, reading)
	}
	if reading.Err() == nil { // a reader gave up
		err = errOvertaken
	}
	stop()
	r.left = r.drain()
	return err
}

// step begins the shards that may be read. It returns when to look again.
func (r *run) step(held, reading context.Context) time.Duration {
	if !time.Now().Before(r.listNext) {
		if err := r.list(reading); err != nil {
			if reading.Err() == nil {
				r.failures++
				r.observer.Retrying(TailRetry{Op: "look for shards", Try: r.failures, Err: err})
			}
			return pauses.Wait(r.failures)
		}
		r.failures = 0
	}
	known := shards.Known(r.listed, maps.Keys(r.begun))
	for _, s := range shards.Ready(known, func(id shards.ID) bool { return r.begun[id].Finished }) {
		if r.readers[s.ID] == nil {
			r.take(held, reading, s)
		}
	}
	return max(time.Until(r.listNext), 10*time.Millisecond)
}

// list lists the shards.
func (r *run) list(ctx context.Context) error {
	arn, err := r.source(ctx)
	if err != nil && ctx.Err() == nil { // what the last stream still has can be read
		r.observer.Retrying(TailRetry{Op: "find the stream", Try: 1, Err: err})
	} else if err == nil {
		r.arn = arn
	}
	listed, err := r.discover(ctx, r.arn, maps.Keys(r.begun))
	if err != nil {
		return err
	}
	r.listed, r.listNext = listed, time.Now().Add(r.listPause)
	r.listPause = min(2*r.listPause, listEvery)
	return nil
}

// take begins to read a shard.
func (r *run) take(held, reading context.Context, s shards.Shard) {
	reader := &reader{Tail: r.Tail, id: s.ID, arn: arnOf(r.arn, s.Stream), last: r.floor(s)}
	r.readers[s.ID] = reader
	r.begun[s.ID] = schema.TailCheckpoint{Seq: r.begun[s.ID].Seq}
	go func() {
		reader.run(held, reading)
		r.ended <- reader
	}()
}

// floor is the last sequence number before those of a shard: its parent's, or, for one
// without a parent, that of the streams before. It is "" where that is not known.
func (r *run) floor(s shards.Shard) string {
	if s.Parent != "" {
		return r.begun[shards.ID{Stream: s.Stream, Shard: s.Parent}].Seq
	}
	last := ""
	for id, c := range r.begun {
		if id.Stream < s.Stream {
			last = max(last, c.Seq)
		}
	}
	return last
}

// wait waits for so long, or until a shard was read to its end; false once ctx has ended, or a
// reader gives up.
func (r *run) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	case reader := <-r.ended:
		r.done(reader)
		return reader.finished && ctx.Err() == nil
	}
}

// done notes that a reader is done.
func (r *run) done(reader *reader) {
	delete(r.readers, reader.id)
	r.begun[reader.id] = schema.TailCheckpoint{Seq: reader.last, Finished: reader.finished}
	if reader.finished {
		r.listNext, r.listPause = time.Time{}, listSoon // its children
	}
}

// drain waits for all readers.
func (r *run) drain() error {
	var left []string
	var why error
	for len(r.readers) > 0 {
		reader := <-r.ended
		r.done(reader)
		if reader.unprocessed != nil {
			left, why = append(left, reader.id.Shard), reader.unprocessed
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("aggregator: what was read of the shards %q could not be processed in time, and is to be read again: %w", left, why)
}
