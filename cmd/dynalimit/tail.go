package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/follow"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// tailCmd turns the table's stream into usage.
type tailCmd struct {
	Once       bool          `help:"Catch up, close the due hours, and end: for a timer that runs it at least every few hours."`
	Close      bool          `help:"Close hours, days and months, so that there are sums of resources, plans and parents." default:"true" negatable:""`
	Grace      time.Duration `help:"How long after its end an hour is closed." default:"15m"`
	FoldEvery  time.Duration `help:"For how long records are gathered that are counted together: the longer, the fewer writes. At most 5m." default:"1m"`
	Every      time.Duration `help:"The time between two lines that say how it goes." default:"30s"`
	KeepHours  string        `help:"How long hours are kept, where the table says nothing yet: see 'usage keep'; 0 for ever. Default: 90d." placeholder:"PERIOD"`
	KeepDays   string        `help:"How long days are kept, as above; 0 for ever. Default: 400d." placeholder:"PERIOD"`
	KeepMonths string        `help:"How long months are kept, as above; 0 for ever. Default: 0." placeholder:"PERIOD"`
	Archive    string        `help:"Archive expired items in files of this folder. Default: no archive." placeholder:"DIR"`
	alertFlags `embed:""`
}

// Validate refuses --every, --fold-every and --grace outside their bounds, and malformed retentions.
func (c tailCmd) Validate() error {
	switch {
	case c.Every < 100*time.Millisecond:
		return fmt.Errorf("--every is %v: give at least 100ms", c.Every)
	case c.FoldEvery > longestFold:
		return fmt.Errorf("--fold-every is %v: give at most %v", c.FoldEvery, longestFold)
	case c.Grace < 0 || c.Grace > longestGrace:
		return fmt.Errorf("--grace is %v: give 0s to %v", c.Grace, longestGrace)
	}
	_, _, err := c.keptRetention()
	return err
}

const (
	longestFold  = 5 * time.Minute
	longestGrace = 25 * time.Hour // then hours are final
)

// keptRetention returns the retention of hours by --keep-hours, and that of hours, days and months together. A
// period is 0 if its flag is not set, and -1, for ever, if the flag is 0. It refuses a period under an hour.
func (c tailCmd) keptRetention() (time.Duration, aggregator.Retention, error) {
	var r aggregator.Retention
	for _, keep := range []struct {
		flag, text string
		to         *time.Duration
	}{{"--keep-hours", c.KeepHours, &r.Hours}, {"--keep-days", c.KeepDays, &r.Days}, {"--keep-months", c.KeepMonths, &r.Months}} {
		period, err := notation.ParsePeriod(keep.text)
		switch {
		case keep.text == "":
			continue
		case keep.text == "0":
			period = -1
		case err != nil:
			return 0, r, fmt.Errorf("%s %w", keep.flag, err)
		case period < time.Hour:
			return 0, r, fmt.Errorf("%s is %s: give at least 1h, or 0 for ever", keep.flag, keep.text)
		}
		*keep.to = period
	}
	return r.Hours, r, nil
}

// Run turns the table's stream into stored usage until ctx ends, and also closes hours, delivers alerts and
// archives as the flags say. With --once it ends after the records from before its start, due hours and open
// alerts.
func (c tailCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	t, err := c.newFollower(ctx, g, out)
	if err != nil {
		return g.explainError(ctx, err)
	}
	if c.Once {
		return g.explainError(ctx, t.followOnce(ctx))
	}
	return g.explainError(ctx, t.followStream(ctx))
}

// follower is one run of the command.
type follower struct {
	tailCmd
	out      *term.Output
	where    string
	clock    func() time.Time
	pace     pace
	progress *follow.Progress
	tail     *aggregator.Tail
	closer   *aggregator.Closer // nil if hours are not closed
	archive  *archiver          // nil without an archive
	alerts   *alert.Deliverer   // nil without a webhook

	mu      sync.Mutex // guards the output
	differs sync.Once
}

// newFollower returns a follower of the table's stream, with its closer, archiver and deliverer of alerts, nil
// if not wanted; it starts none. It creates the folder of the archive. It fails if the table cannot be
// described, unless it is missing.
func (c tailCmd) newFollower(ctx context.Context, g *globals, out *term.Output) (*follower, error) {
	hours, sums, err := c.keptRetention()
	if err != nil {
		return nil, badInput("%w", err)
	}
	o := g.connectOptions(ctx)
	t := &follower{tailCmd: c, out: out, where: o.Where(), pace: paceOf(ctx, o.UsesEngine()), clock: func() time.Time { return now(ctx) }}
	t.progress = follow.New(time.Now, t.printNote)
	if err := checkFolder(c.Archive); err != nil {
		return nil, err
	}
	defer out.Watch(t.where)()
	cfg, err := o.Config(ctx)
	if err != nil {
		return nil, err
	}
	client := o.ClientOf(cfg)
	missing := new(types.ResourceNotFoundException) // the tail reports it
	seen, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &g.Table})
	if err != nil && !errors.As(err, &missing) {
		return nil, fmt.Errorf("describe the table %s: %w", g.Table, err)
	}
	if seen != nil {
		if at, dated := awsmiddleware.GetServerTime(seen.ResultMetadata); dated {
			t.progress.SetEnd(at)
		}
	}
	if t.closer, err = t.newCloser(ctx, g, client, sums); err != nil {
		return nil, err
	}
	if t.alerts, err = c.newDeliverer(client, g.Table, t.printNote); err != nil {
		return nil, err
	}
	p, err := aggregator.New(client, g.Table, &aggregator.Options{Retention: hours, RetentionDiffers: t.noteRetention})
	if err != nil {
		return nil, err
	}
	opts := &aggregator.TailOptions{Holder: hostname(), FoldEvery: c.FoldEvery, Now: clockOf(ctx), Observer: t.progress.Observer()}
	if c.Once {
		opts.FoldEvery, opts.Poll, opts.Drain = -1, t.pace.poll, t.pace.drain
	}
	if t.tail, err = aggregator.NewTail(o.StreamsOf(cfg), client, g.Table, p.Process, opts); err != nil || c.Archive == "" {
		return t, err
	}
	t.archive, err = newArchiver(o.StreamsOf(cfg), client, g.Table, c.Archive, *opts, t.printNote)
	return t, err
}

// newCloser returns the closer of hours, days and months, not started, or nil with --no-close. keep is the
// retention that it stores if the table has none.
func (t *follower) newCloser(ctx context.Context, g *globals, client *dynamodb.Client, keep aggregator.Retention) (*aggregator.Closer, error) {
	if !t.Close {
		return nil, nil //nolint:nilnil // not requested
	}
	return aggregator.NewCloser(client, g.Table, &aggregator.CloserOptions{
		Grace: t.Grace, Retention: keep, RetentionDiffers: t.noteRetention, Closed: t.progress.Closed, Failed: t.progress.Failed, Now: clockOf(ctx),
	})
}

// noteRetention notes that the table stores another retention than the flags, and that it counts. It prints
// only at its first call.
func (t *follower) noteRetention(stored aggregator.Retention) {
	t.differs.Do(func() {
		t.out.Notef("dynalimit: the table keeps hours for %s, which this command obeys, and days and months as 'dynalimit usage keep' says; it changes that, too", keptText(stored.Hours))
	})
}

// hostname returns this machine's name, or "somewhere". Other processes see it as the holder of a
// lease.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "somewhere"
	}
	return name
}
