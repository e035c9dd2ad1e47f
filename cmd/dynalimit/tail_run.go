package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/follow"
)

// pace is the timing of reading a stream once to its end.
type pace struct {
	// poll is the pause between two reads of a shard without new records.
	poll time.Duration
	// settle is how long no record must arrive before the stream counts as read to its end.
	settle time.Duration
	// others is the same if no shard was free, because other processes may be dying.
	others time.Duration
	// look is the time between two checks for the end.
	look time.Duration
	// tries is the number of consecutive failures of a step, such as a checkpoint or a file,
	// before the run gives up: a timer starts the next one.
	tries int
	// drain is how long unprocessed records are retried at the end.
	drain time.Duration
}

// paceKey is the context key of a test's pace.
type paceKey struct{}

// paceOf returns the waiting times of --once: those that a test put into ctx, else those for AWS or, with
// engine, shorter ones. AWS needs longer ones, because it returns empty pages in between.
func paceOf(ctx context.Context, engine bool) pace {
	if p, ok := ctx.Value(paceKey{}).(pace); ok {
		return p
	}
	p := pace{poll: 250 * time.Millisecond, settle: 10 * time.Second, others: 45 * time.Second, look: 100 * time.Millisecond, tries: 6, drain: 10 * time.Second}
	if engine {
		p.settle = 2500 * time.Millisecond
	}
	return p
}

// followStream aggregates and archives the stream, closes hours, delivers alerts and prints the progress, until
// ctx ends or the tail fails. It then waits for all of them and prints the totals. The end of ctx is an error
// only if records or items are left.
func (t *follower) followStream(ctx context.Context) error {
	t.out.Notef("dynalimit: following the stream of %s; Ctrl-C counts what was gathered, and ends", t.where)
	var beside sync.WaitGroup
	going, stop := context.WithCancel(ctx)
	if t.closer != nil {
		beside.Go(func() { _ = t.closer.Run(going) }) // failures are noted
	}
	if t.alerts != nil {
		beside.Go(func() { _ = t.alerts.Run(going) }) // failures are noted
	}
	beside.Go(func() { t.printRegularly(going) })
	archived := t.archive.startArchive(going)
	err := t.tail.Run(ctx)
	stop()
	beside.Wait()
	unarchived := archived()
	t.printProgress(true)
	switch {
	case ctx.Err() == nil && err != nil:
		return err
	case err != nil:
		err = fmt.Errorf("%w; the next follower of the stream counts it", err)
	}
	if err = errors.Join(err, unarchived); err != nil {
		return &failure{exitFailed, err}
	}
	return nil
}

// printRegularly prints the progress every --every, or every second on a terminal without --json. It blocks
// until ctx ends.
func (t *follower) printRegularly(ctx context.Context) {
	every := t.Every
	if t.out.Width > 0 && !t.out.JSON {
		every = time.Second
	}
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			t.printProgress(false)
		}
	}
}

// followOnce aggregates and archives the records from before its start. Then it tries to deliver open alerts
// once, closes the due hours and prints the totals. After an error of any of these it stops the archive and
// prints no totals.
func (t *follower) followOnce(ctx context.Context) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	over := t.out.Watch("the stream of " + t.where)
	archived := t.archive.startOnce(following, t.pace)
	go t.printRegularly(following)
	ended := make(chan error, 1)
	counting, counted := context.WithCancel(following)
	go func() { ended <- t.tail.Run(counting) }()
	tailEnded, err := waitForCatchUp(ctx, ended, t.progress, t.pace)
	counted()
	if !tailEnded {
		err = errors.Join(err, <-ended)
	}
	over()
	if err == nil && t.alerts != nil {
		delivering := t.out.Watch(t.where + ", delivering alerts")
		err = t.alerts.RunOnce(ctx)
		delivering()
	}
	if err == nil && t.closer != nil {
		closing := t.out.Watch(t.where + ", closing hours")
		_, err = t.closer.CloseDue(ctx)
		closing()
	}
	if err != nil {
		stop()
		_ = archived() // faults of the stream were reported
		return err
	}
	if t.archive != nil {
		defer t.out.Watch(t.where + ", archiving what expired")()
	}
	err = archived()
	t.printProgress(true)
	return err
}

// waitForCatchUp waits until p reports that the records from before the start are processed, or until ended
// delivers the tail's end. tailEnded is true if it received from ended. It returns an error if ctx ends, if the
// tail fails, or after how.tries failures of a step.
func waitForCatchUp(ctx context.Context, ended <-chan error, p *follow.Progress, how pace) (tailEnded bool, err error) {
	looks := time.NewTicker(how.look)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, errors.Join(context.Cause(ctx), <-ended)
		case err := <-ended:
			return true, err
		case <-looks.C:
		}
		if err := p.Stuck(how.tries); err != nil {
			return false, err
		}
		quiet, reading := p.Quiet()
		if reading && quiet >= how.settle || quiet >= how.others {
			return false, nil
		}
	}
}
