package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// processGathered processes the gathered records, stores the checkpoint, and drops them. If none of them was
// usage or skipped, it writes no checkpoint. It fails only if ctx ends, and then keeps them.
func (r *shardReader) processGathered(ctx context.Context) error {
	if err := r.storeGathered(ctx); err != nil {
		return err
	}
	r.dropGathered()
	return nil
}

// storeGathered processes the gathered records and leaves them in r.gathered. It stores a checkpoint if any was
// usage, or was skipped after its last try. Meanwhile it reports the lag every options.Poll. It fails only if
// ctx ends.
func (r *shardReader) storeGathered(ctx context.Context) error {
	defer r.repeatLag()()
	counted, err := r.processAll(ctx)
	if err != nil {
		return err
	}
	if counted && !r.retryUntilDone(ctx, "write the checkpoint", func() error {
		return r.intake.points.storeCheckpoint(ctx, r.id, schema.TailCheckpoint{Number: r.at})
	}) {
		return context.Cause(ctx)
	}
	return nil
}

// repeatLag reports the lag every options.Poll, on a goroutine of its own, until stop is called. stop waits
// until that goroutine has ended.
func (r *shardReader) repeatLag() (stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		again := time.NewTicker(r.intake.options.Poll)
		defer again.Stop()
		for {
			select {
			case <-ended:
				return
			case <-again.C:
				r.reportLag()
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

// processAll processes the gathered records until each is processed or skipped, with pauses between tries, and
// reports skipped ones to the observer. The result counted is true if any was usage or was skipped. It fails
// only if ctx ends.
func (r *shardReader) processAll(ctx context.Context) (counted bool, err error) {
	attempts := attempts{most: r.intake.options.Tries, unreadable: map[recordID]int{}, skipped: map[recordID]bool{}}
	rest := r.gathered
	for try := 0; len(rest) > 0; try++ {
		result, err := r.processOnce(ctx, rest)
		counted = counted || result.Counted+result.Repeated > 0
		if err == nil {
			var skipped []RecordSkipped
			rest, skipped, err = attempts.remaining(rest, result)
			for _, s := range skipped {
				counted, s.Shard = true, r.shard()
				callObserver(r.intake.observer, r.intake.observer.Skipped, s)
			}
		}
		if len(rest) == 0 {
			break
		}
		if ctx.Err() == nil {
			r.reportRetry("process records", try, err)
		}
		if !pauses.Pause(ctx, try) {
			return counted, fmt.Errorf("%d records: %w; %w", len(rest), context.Cause(ctx), err)
		}
	}
	return counted, nil
}

// processOnce calls the ProcessFunc once and returns its result. It reports the result, its duration and its
// alerts to the observer.
func (r *shardReader) processOnce(ctx context.Context, records []Record) (Result, error) {
	began := r.intake.options.Now()
	result, err := r.processSafely(ctx, records)
	callObserver(r.intake.observer, r.intake.observer.Processed, RecordsProcessed{Shard: r.shard(), Records: len(records), Result: result, Duration: r.intake.options.Now().Sub(began)})
	for _, a := range result.Alerts {
		callObserver(r.intake.observer, r.intake.observer.Alerted, a)
	}
	return result, err
}

// processSafely calls the ProcessFunc. A panic or Goexit becomes an error with its stack, so that other shards
// are read and these records are processed again.
func (r *shardReader) processSafely(ctx context.Context, records []Record) (result Result, err error) {
	err = guard.Apart(func() (err error) {
		result, err = r.intake.process(ctx, records)
		return err
	})
	if ended, ok := errors.AsType[*guard.Ended](err); ok {
		return Result{}, fmt.Errorf("the ProcessFunc did not return: %w\n%s", err, ended.Stack)
	}
	return result, err
}

// recordID tells records of a shard apart.
type recordID struct{ event, sequence string }

// idOf returns the event id and the sequence number of a record, which identify it in its shard.
func idOf(r Record) recordID { return recordID{r.EventID, r.Sequence} }

// attempts counts how often records were tried that can never be processed.
type attempts struct {
	most       int
	unreadable map[recordID]int
	skipped    map[recordID]bool
}

// remaining returns the records to process again, in order: the failed ones and the later ones of their items.
// It counts unreadable records in a, and returns in skipped, once, each that reaches a.most. The error is that
// of one failed record, or nil.
func (a attempts) remaining(records []Record, result Result) (rest []Record, skipped []RecordSkipped, err error) {
	failed := make(map[recordID]bool, len(result.Failures))
	for _, f := range result.Failures {
		id := idOf(f.Record)
		if failed[id] || a.skipped[id] {
			continue
		}
		if f.Unreadable {
			a.unreadable[id]++
		}
		if a.unreadable[id] >= a.most {
			a.skipped[id] = true
			skipped = append(skipped, RecordSkipped{Record: f.Record, Err: f.Err, Tries: a.unreadable[id]})
			continue
		}
		failed[id], err = true, f.Err
	}
	blocked := map[schema.Key]bool{}
	for _, r := range records {
		id, key := idOf(r), schema.KeyOf(r.Keys)
		if blocked[key] = blocked[key] || failed[id]; blocked[key] && !a.skipped[id] {
			rest = append(rest, r)
		}
	}
	return rest, skipped, err
}
