package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/follow"
)

// pace is how a stream is read once, to its end.
type pace struct {
	// poll is the pause between two reads of a shard that has nothing new.
	poll time.Duration
	// settle is how long nothing new has to come before it was read to its end.
	settle time.Duration
	// others is that where no shard was free: others may be dying.
	others time.Duration
	// look is the time between two looks whether it was.
	look time.Duration
	// tries is how often in a row a step may fail, such as a checkpoint or a file that cannot be
	// written, before it is given up: a timer comes again.
	tries int
	// drain is for how long what could not be processed is tried once more at the end.
	drain time.Duration
}

// paceKey is where a test puts its pace into a context.
type paceKey struct{}

// paceOf is the pace with AWS, which gives empty pages in between, or with an engine.
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

// serve follows the stream until ctx ends.
func (t *follower) serve(ctx context.Context) error {
	t.out.Notef("dynalimit: following the stream of %s; Ctrl-C counts what was gathered, and ends", t.where)
	var beside sync.WaitGroup
	going, stop := context.WithCancel(ctx)
	if t.closer != nil {
		beside.Go(func() { _ = t.closer.Run(going) }) // what fails is told
	}
	beside.Go(func() { t.tellEvery(going) })
	archived := t.archive.run(going)
	err := t.tail.Run(ctx)
	stop()
	beside.Wait()
	unarchived := archived()
	t.line(true)
	switch {
	case ctx.Err() == nil && err != nil:
		return err
	case err != nil:
		err = fmt.Errorf("%w; it is counted by whoever follows the stream next", err)
	}
	if err = errors.Join(err, unarchived); err != nil {
		return &failure{exitFailed, err}
	}
	return nil
}

// tellEvery says how it goes, until ctx ends.
func (t *follower) tellEvery(ctx context.Context) {
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
			t.line(false)
		}
	}
}

// once follows the stream up to what was written when it began, and closes what is due.
func (t *follower) once(ctx context.Context) error {
	following, stop := context.WithCancel(ctx)
	defer stop()
	over := t.out.Watch("the stream of " + t.where)
	archived := t.archive.once(following, t.pace)
	go t.tellEvery(following)
	ended := make(chan error, 1)
	counting, counted := context.WithCancel(following)
	go func() { ended <- t.tail.Run(counting) }()
	tailEnded, err := caughtUp(ctx, ended, t.progress, t.pace)
	counted()
	if !tailEnded {
		err = errors.Join(err, <-ended)
	}
	over()
	if err == nil && t.closer != nil {
		closing := t.out.Watch(t.where + ", closing hours")
		_, err = t.closer.CloseDue(ctx)
		closing()
	}
	if err != nil {
		stop()
		_ = archived() // what is wrong with the stream was told
		return err
	}
	if t.archive != nil {
		defer t.out.Watch(t.where + ", archiving what expired")()
	}
	err = archived()
	t.line(true)
	return err
}

// caughtUp waits until nothing waits, the tail has ended, or it cannot go on: then it fails.
func caughtUp(ctx context.Context, ended <-chan error, p *follow.Progress, how pace) (tailEnded bool, err error) {
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
