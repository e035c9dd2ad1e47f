package denials

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// writers is how many items are written at once.
const writers = 4

// Flush adds what was counted so far to the table at once, before the interval is over. It
// tries each item once. What was surely not added because DynamoDB is busy, or because ctx
// ended, is kept for the next time; the error tells of it and of what is lost. To write more
// often than the interval costs a write unit for each item.
func (r *Recorder) Flush(ctx context.Context) error {
	if err := r.called(ctx); err != nil {
		return err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return fmt.Errorf("denials: counts are kept for later: %w", ctx.Err())
	}
	r.mu.Lock()
	counts := r.tally.take()
	r.mu.Unlock()
	all := items(r.keys, counts, max(0, r.opts.Retention))
	var group errgroup.Group
	group.SetLimit(writers)
	var failures failures
	for i := range all {
		group.Go(func() error {
			failures.note(r.write(ctx, &all[i]))
			return nil
		})
	}
	_ = group.Wait()
	return failures.err(len(all))
}

// failures are what went wrong with items.
type failures struct {
	mu    sync.Mutex
	n     int
	first error
}

func (f *failures) note(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n++; f.first == nil {
		f.first = err
	}
}

func (f *failures) err(all int) error {
	if f.first == nil {
		return nil
	}
	return fmt.Errorf("denials: %d of %d items were not written: %w", f.n, all, f.first)
}

// write adds the counts of an item, and notes what became of them.
func (r *Recorder) write(ctx context.Context, d *schema.Denied) error {
	err := ctx.Err()
	verdict := ddb.Unsent
	if err == nil {
		verdict, err = r.update(ctx, d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for limit, n := range d.Limits {
		switch {
		case verdict == ddb.Landed:
			r.stats.Written += n
		case verdict == ddb.Unconfirmed:
			r.stats.Unconfirmed += n
		case !verdict.Unavailable() || !r.tally.add(counter{d.Entity, d.Resource, limit, hourOf(d.Hour)}, n):
			r.stats.Lost += n
		}
	}
	return err
}

// update sends one request, which is not sent again: its answer may be what was lost.
func (r *Recorder) update(ctx context.Context, d *schema.Denied) (ddb.Verdict, error) {
	st := d.Statement()
	_, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: d.Key().Attributes(), UpdateExpression: &st.Update,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
	}, ddb.WithoutRetries)
	if err == nil {
		return ddb.Landed, nil
	}
	diagnosis := ddb.Classify(err, ctx)
	if diagnosis.Setting {
		return ddb.Failed, err
	}
	return diagnosis.Verdict, err
}

// Close adds what is left to the table, also where ctx has ended already, and counts no
// more. It returns after Options.Timeout at the latest, with an error if something was not
// added, or may not have been: then it is lost. Close the limiter before.
func (r *Recorder) Close(ctx context.Context) error {
	if err := r.called(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Timeout)
	defer cancel()
	r.mu.Lock()
	r.closed = true
	if r.timer != nil && r.timer.Stop() {
		r.ticks.Done()
	}
	before := r.stats
	r.mu.Unlock()
	err := r.Flush(ctx)
	for try := 0; r.Stats().Waiting > 0 && pauses.Pause(ctx, try); try++ {
		if again := r.Flush(ctx); again != nil {
			err = again
		}
	}
	r.end()
	r.ticks.Wait()
	r.mu.Lock()
	for _, n := range r.tally.take() {
		r.stats.Lost += n
	}
	lost, unconfirmed := r.stats.Lost-before.Lost, r.stats.Unconfirmed-before.Unconfirmed
	r.mu.Unlock()
	err = ended(lost, unconfirmed, err)
	r.tell(err)
	return err
}

// ended is the error of a Close that did not add everything.
func ended(lost, unconfirmed int64, err error) error {
	switch {
	case lost+unconfirmed == 0:
		return nil
	case err == nil: // what was under way failed
		return fmt.Errorf("denials: at the end %d counts are lost and %d not confirmed", lost, unconfirmed)
	}
	return fmt.Errorf("denials: at the end %d counts are lost and %d not confirmed: %w", lost, unconfirmed, err)
}

// pauses are the waits of Close before it writes again what DynamoDB was too busy for.
var pauses = ddb.Backoff{First: 100 * time.Millisecond, Most: 2 * time.Second}
