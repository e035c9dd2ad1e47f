package aggregator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shards"
)

const (
	// lookEvery is the interval in which a standby looks at the lease.
	lookEvery = 2 * time.Second
	// listEvery is how often shards are listed; after one ended, sooner.
	listEvery, listSoon = 30 * time.Second, time.Second
)

// errOvertaken is that of a Tail that finds it is not alone.
var errOvertaken = errors.New("aggregator: another process has read beyond the holder of the lease")

// hold is one hold of the lease.
type hold struct {
	intake *intake
	arn    string
	// begun are the shards with a checkpoint, and their checkpoints.
	begun   map[shards.ID]schema.TailCheckpoint
	readers map[shards.ID]*shardReader
	// ended gets each reader when it is done.
	ended chan *shardReader

	listed    []shards.Shard
	listNext  time.Time
	listPause time.Duration
	// failures counts the lists that failed in a row.
	failures int
	// left is an error if something that was gathered was not processed.
	left error
}

// readShards reads all shards until ctx ends, or held does, the context of the lease, or a reader stops early.
// It then waits for the readers, and sets h.left to an error if they leave records unprocessed. It returns
// errOvertaken if a reader stopped early, because another Tail reads the stream too.
func (h *hold) readShards(ctx, held context.Context) error {
	reading, stop := context.WithCancel(held)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	begun, err := h.intake.points.readAll(reading)
	if err != nil {
		return err
	}
	h.begun = begun
	for wait := time.Duration(0); h.awaitReader(reading, wait); {
		wait = h.beginShards(held, reading)
	}
	if reading.Err() == nil { // a reader gave up
		err = errOvertaken
	}
	stop()
	h.left = h.awaitReaders()
	return err
}

// beginShards lists the shards when that is due, and starts a reader for each shard whose parents are read to
// their ends. It returns the wait until the next call. It reports failed lists to the observer.
func (h *hold) beginShards(held, reading context.Context) time.Duration {
	if !time.Now().Before(h.listNext) {
		if err := h.listShards(reading); err != nil {
			if reading.Err() == nil {
				h.failures++
				callObserver(h.intake.observer, h.intake.observer.Retrying, TailRetry{Op: "list the shards", Try: h.failures, Err: err})
			}
			return pauses.Wait(h.failures)
		}
		h.failures = 0
	}
	known := shards.AllKnown(h.listed, maps.Keys(h.begun))
	for _, s := range shards.ReadableShards(known, func(id shards.ID) bool { return h.begun[id].Finished }) {
		if h.readers[s.ID] == nil {
			h.takeShard(held, reading, s)
		}
	}
	return max(time.Until(h.listNext), 10*time.Millisecond)
}

// listShards finds the table's stream, lists its shards and those of earlier streams that have a checkpoint,
// and sets the time of the next list. If it cannot find the stream, it reports that to the observer and uses
// the last one.
func (h *hold) listShards(ctx context.Context) error {
	arn, err := h.intake.stream.findStream(ctx)
	if err != nil && ctx.Err() == nil { // the rest of the last stream can be read
		callObserver(h.intake.observer, h.intake.observer.Retrying, TailRetry{Op: "find the stream", Try: 1, Err: err})
	} else if err == nil {
		h.arn = arn
	}
	listed, err := h.intake.stream.listAllShards(ctx, h.arn, maps.Keys(h.begun))
	if err != nil {
		return err
	}
	h.listed, h.listNext = listed, time.Now().Add(h.listPause)
	h.listPause = min(2*h.listPause, listEvery)
	return nil
}

// takeShard starts a goroutine that reads a shard, and marks the shard as begun. The goroutine sends its reader
// to h.ended at its end, also after a panic.
func (h *hold) takeShard(held, reading context.Context, s shards.Shard) {
	reader := &shardReader{intake: h.intake, id: s.ID, arn: arnOf(h.arn, s.Stream), last: h.sequenceBefore(s)}
	h.readers[s.ID] = reader
	h.begun[s.ID] = schema.TailCheckpoint{Seq: h.begun[s.ID].Seq}
	go func() {
		defer func() { h.ended <- reader }()
		guard.Call(func() { reader.readShard(held, reading) }, func(e *guard.Ended) { reader.unprocessed = e })
	}()
}

// sequenceBefore returns the highest processed sequence number before the shard, as padded text: its parent's,
// or that of all earlier streams if it has no parent. It is "" if unknown.
func (h *hold) sequenceBefore(s shards.Shard) string {
	if s.Parent != "" {
		return h.begun[shards.ID{Stream: s.Stream, Shard: s.Parent}].Seq
	}
	last := ""
	for id, c := range h.begun {
		if id.Stream < s.Stream {
			last = max(last, c.Seq)
		}
	}
	return last
}

// awaitReader waits for d, or until a shard's reader is done, which it passes to shardDone. It returns false if
// ctx has ended, or if that reader stopped before the end of its shard.
func (h *hold) awaitReader(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	case reader := <-h.ended:
		h.shardDone(reader)
		return reader.finished && ctx.Err() == nil
	}
}

// shardDone removes a reader and notes its checkpoint in h.begun. If the shard is finished, the next list of
// shards is due at once, for its children.
func (h *hold) shardDone(reader *shardReader) {
	delete(h.readers, reader.id)
	h.begun[reader.id] = schema.TailCheckpoint{Seq: reader.last, Finished: reader.finished}
	if reader.finished {
		h.listNext, h.listPause = time.Time{}, listSoon // its children
	}
}

// awaitReaders waits until all shards' readers are done. It returns an error that names the shards with
// unprocessed records, or nil.
func (h *hold) awaitReaders() error {
	var left []string
	var why error
	for len(h.readers) > 0 {
		reader := <-h.ended
		h.shardDone(reader)
		if reader.unprocessed != nil {
			left, why = append(left, reader.id.Shard), reader.unprocessed
		}
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("aggregator: records of the shards %q were not processed in time, and are read again: %w", left, why)
}
