package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"
)

// workerVariable marks a process as a worker. It reads its task from standard
// input, says that it is ready, waits for the word to go, and then writes
// messages, one JSON object a line.
const workerVariable = "DYNALIMIT_CONTEND_WORKER"

// every is the time between two reports of progress.
const every = 100 * time.Millisecond

// message is what a worker says: that it is ready, how far it is, or how it
// ended.
type message struct {
	Ready    bool     `json:"ready,omitempty"`
	Granted  int64    `json:"granted,omitempty"`
	Tally    *tally   `json:"tally,omitempty"`
	Requests requests `json:"requests"`
}

func work(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	var t task
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &t); err != nil {
		return err
	}
	transport := newCounting(t.Settings.Goroutines)
	l, err := newLoad(dial(t.Endpoint, transport), t)
	if err != nil {
		return err
	}
	if err := l.warm(ctx); err != nil {
		return err
	}
	say := json.NewEncoder(out)
	if err := say.Encode(message{Ready: true}); err != nil {
		return err
	}
	if _, err := lines.ReadString('\n'); err != nil {
		return errors.New("the parent has gone")
	}
	go func() { // the parent keeps the pipe open while it wants us to run
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()
	before := transport.count()
	sum, err := l.report(ctx, func(granted int64) { _ = say.Encode(message{Granted: granted}) })
	if err != nil {
		return err
	}
	return say.Encode(message{Tally: &sum, Requests: transport.count().minus(before)})
}

// report runs the load and tells of its progress, from this goroutine alone.
func (l *load) report(ctx context.Context, progress func(granted int64)) (tally, error) {
	type ending struct {
		tally
		error
	}
	ended := make(chan ending, 1)
	go func() {
		sum, err := l.run(ctx)
		ended <- ending{sum, err}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			progress(l.granted.Load())
		case e := <-ended:
			return e.tally, e.error
		}
	}
}
