package contend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// role marks a process as a worker. It reads its task from standard input, says that it is
// ready, waits for the word to go, and then says what it did: one JSON value each.
const role = "DYNALIMIT_CONTEND_WORKER"

func work(ctx context.Context, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var t task
	if err := orders.Decode(&t); err != nil {
		return err
	}
	idle := t.Settings.Goroutines
	transport := &http.Transport{MaxIdleConnsPerHost: idle, MaxIdleConns: idle}
	defer transport.CloseIdleConnections()
	l, err := newLoad(ctx, dial(t.Endpoint, &http.Client{Transport: transport}), t)
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

// child is one worker process.
type child struct {
	*program.Child
	orders  *json.Encoder
	answers *json.Decoder
}

type children []child

// startChildren starts the processes and waits until all are ready.
func startChildren(ctx context.Context, s settings, st *store) (_ children, err error) {
	var all children
	defer func() {
		if err != nil {
			all.dismiss()
		}
	}()
	for p := range s.Processes {
		c, err := program.Again(ctx, role)
		if err != nil {
			return nil, err
		}
		all = append(all, child{c, json.NewEncoder(c.In), json.NewDecoder(c.Out)})
		if err := all[p].orders.Encode(task{s, st.endpoint, p * s.Goroutines}); err != nil {
			return nil, err
		}
	}
	for _, c := range all {
		var word string
		if err := c.answers.Decode(&word); err != nil {
			return nil, fmt.Errorf("a worker did not start: %w", err)
		}
	}
	return all, nil
}

// run lets them go and adds up what they did.
func (all children) run() (sum tally, err error) {
	for _, c := range all {
		if err := c.orders.Encode("go"); err != nil {
			return sum, err
		}
	}
	for i, c := range all {
		var did tally
		if err := c.answers.Decode(&did); err != nil {
			return sum, fmt.Errorf("worker %d ended early: %w", i, err)
		}
		sum = sum.plus(did)
	}
	return sum, nil
}

// dismiss ends them.
func (all children) dismiss() {
	for _, c := range all {
		_ = c.In.Close() // tells it to end
		_ = c.Wait()
	}
}
