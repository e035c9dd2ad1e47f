package contend

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// work is the main function of a worker. It reads its task, opens its limiter, reports that it is ready, and
// waits for the start. Then it calls until the task's time is over or the parent closes the orders, and reports
// its tally.
func work(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	var t task
	if err := orders.Decode(&t); err != nil {
		return err
	}
	var l *load
	var err error
	if open, ok := peers[t.Settings.Peer]; ok {
		l = &load{task: t}
		l.asker, err = open(t)
	} else {
		l, err = newLoad(ctx, program.NewClient(t.Endpoint, nil), t)
	}
	if err != nil {
		return err
	}
	var word string
	if err := errors.Join(answers.Encode("ready"), orders.Decode(&word)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the parent keeps the pipe open while it wants us to run
		_ = orders.Decode(&word)
		cancel()
	}()
	sum, err := l.run(ctx)
	return errors.Join(err, answers.Encode(sum))
}

type workers []*program.Child

// startWorkers starts the processes and waits until all are ready. The caller must dismiss all,
// also after an error.
func startWorkers(ctx context.Context, s settings, endpoint string) (all workers, err error) {
	for p := range s.Processes {
		c, err := program.StartChild(ctx, task{s, endpoint, p * s.Goroutines})
		all = append(all, c)
		if err != nil {
			return all, err
		}
	}
	for _, c := range all {
		var word string
		if err := c.ReadAnswer(&word); err != nil {
			return all, err
		}
	}
	return all, nil
}

// run starts all workers at once, waits for their ends, and returns the sum of their tallies.
func (all workers) run() (sum tally, err error) {
	for _, c := range all {
		if err := c.SendOrder("go"); err != nil {
			return sum, err
		}
	}
	for _, c := range all {
		var did tally
		if err := c.ReadAnswer(&did); err != nil {
			return sum, err
		}
		sum = sum.plus(did)
	}
	return sum, nil
}

// dismiss stops the workers and waits for their exits. It ignores their errors.
func (all workers) dismiss() {
	for _, c := range all {
		_ = c.Stop()
	}
}
