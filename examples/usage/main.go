// Command usage shows who used what, from the call to the numbers of a day: keys of a team
// call a model, a Tail follows the table's stream and has each call counted once, a Closer
// sums hours that are over, and a Reader reads the day. Everything runs in process, on a
// simulated clock:
//
//	go run ./examples/usage
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

const (
	table = "limits"
	model = "gpt-4"
	team  = "shop"
	hours = 20 // of the day that are played
)

// keys are those that call.
var keys = []string{"ana", "nightly", "ben"}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "usage:", err)
		os.Exit(1)
	}
}

// day is a table, the simulated time, and what prints.
type day struct {
	db   *ddbmem.DB
	at   time.Time
	repo *dynalimit.Repository
	out  io.Writer
}

func (d *day) now() time.Time { return d.at }

func run(ctx context.Context, out io.Writer) error {
	d := &day{at: time.Date(2026, 1, 23, 0, 0, 0, 0, time.UTC), out: out}
	d.db = ddbmem.New(ddbmem.WithClock(d.now))
	defer d.db.Close()
	fmt.Fprintln(out, "who used what, on ddbmem, a DynamoDB in this process")
	for _, step := range []func(context.Context) error{d.setUp, d.calls, d.follow, d.closeHours, d.readHours, d.readKeys} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the table, with its stream, and keys that cascade into their team.
func (d *day) setUp(ctx context.Context) (err error) {
	d.repo, err = dynalimit.NewRepository(d.db.Client(), table, &dynalimit.RepositoryOptions{Now: d.now, Principal: "examples/usage"})
	if err != nil {
		return err
	}
	if err := d.repo.CreateTable(ctx); err != nil {
		return err
	}
	if err := d.repo.CreateEntity(ctx, dynalimit.Entity{ID: team}); err != nil {
		return err
	}
	for _, key := range keys {
		if err := d.repo.CreateEntity(ctx, dynalimit.Entity{ID: key, ParentID: team, Cascade: true}); err != nil {
			return err
		}
	}
	return d.repo.SetSystemLimits(ctx, []dynalimit.Limit{dynalimit.PerMinute("tpm", 12_000)}, nil)
}

// calls has the keys call the model: ana and ben by day, and nightly at two and at three.
func (d *day) calls(ctx context.Context) error {
	limiter, err := dynalimit.New(d.repo, nil)
	if err != nil {
		return err
	}
	defer func() { _ = limiter.Close(ctx) }()
	calls := 0
	for until := d.at.Add(hours * time.Hour); d.at.Before(until); d.at = d.at.Add(5 * time.Minute) {
		for _, key := range keys {
			asked := demand(key, d.at.Hour())
			if asked == 0 {
				continue
			}
			lease, err := limiter.Acquire(ctx, key, model, dynalimit.Amounts{"tpm": asked})
			if err != nil {
				return err
			}
			if err := lease.Settle(ctx, dynalimit.Amounts{"tpm": asked * 3 / 4}); err != nil { // what it really used
				return err
			}
			calls++
		}
	}
	d.step("Calls", "%d of %d keys until %s", calls, len(keys), d.at.Format("15:04"))
	return nil
}

// demand is how many tokens a call of a key asks for at an hour; 0 is no call.
func demand(key string, hour int) int64 {
	awake := int64(max(0, 6-max(hour-13, 13-hour))) // most at one o'clock
	switch key {
	case "nightly":
		if hour == 2 || hour == 3 {
			return 8000
		}
		return 0
	case "ana":
		return awake * 1200
	}
	return awake * 400
}

// follow has a Tail count what the stream holds. A service runs it all the time.
func (d *day) follow(ctx context.Context) error {
	processor, err := aggregator.New(d.db.Client(), table, nil)
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	seen := &progress{caughtUp: stop}
	tail, err := aggregator.NewTail(d.db.StreamsClient(), d.db.Client(), table, processor.Process, &aggregator.TailOptions{
		Holder: "examples/usage", FoldEvery: -1, Poll: 50 * time.Millisecond, Now: d.now, Observer: seen, // by default it takes its time
	})
	if err != nil {
		return err
	}
	if err := tail.Run(following); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.step("Tail", "%d records of the stream counted, each once, %d gaps", seen.counted, seen.gaps)
	return nil
}

// progress ends a Tail once nothing waits.
type progress struct {
	aggregator.NopTailObserver
	caughtUp func()

	mu            sync.Mutex
	counted, gaps int
}

func (p *progress) Processed(e aggregator.RecordsProcessed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted += e.Result.Counted
	p.gaps += len(e.Result.Gaps)
}

func (p *progress) Lagged(e aggregator.ShardLag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counted > 0 && e.Gathered == 0 && e.Behind == 0 {
		p.caughtUp()
	}
}

// closeHours sums the hours that are over, a quarter of an hour after the last.
func (d *day) closeHours(ctx context.Context) error {
	d.at = d.at.Add(16 * time.Minute)
	closer, err := aggregator.NewCloser(d.db.Client(), table, &aggregator.CloserOptions{Now: d.now})
	if err != nil {
		return err
	}
	done, err := closer.CloseDue(ctx)
	if err != nil {
		return err
	}
	d.step("Close", "%d hours closed, from the day before on, %d with usage that is missing", done.Hours, len(done.Gaps))
	return nil
}
