package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// crew are the limiters under test, ready to go.
type crew interface {
	// run lets them go and returns what each did. It tells of each one's grants
	// so far, from several goroutines.
	run(ctx context.Context, progress func(who int, granted int64)) ([]message, error)
	// dismiss ends them if they still run.
	dismiss()
}

// child is one worker process.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	done bool
}

type children []*child

// startChildren starts the processes and waits until all are ready.
func startChildren(ctx context.Context, s settings, st *store) (crew, error) {
	var all children
	for p := range s.Processes {
		c, err := startChild(ctx, task{Settings: s, Table: st.table, Endpoint: st.endpoint, First: p * s.Goroutines})
		if err != nil {
			all.dismiss()
			return nil, err
		}
		all = append(all, c)
	}
	for _, c := range all {
		var m message
		if err := c.out.Decode(&m); err != nil || !m.Ready {
			all.dismiss()
			return nil, fmt.Errorf("a worker did not start: %w", errors.Join(err, ctx.Err()))
		}
	}
	return all, nil
}

func startChild(ctx context.Context, t task) (*child, error) {
	cmd, err := program.Again(ctx, workerVariable)
	if err != nil {
		return nil, err
	}
	c, err := program.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &child{cmd: c.Cmd, in: c.In, out: json.NewDecoder(c.Out)}, json.NewEncoder(c.In).Encode(t)
}

func (all children) run(_ context.Context, progress func(int, int64)) ([]message, error) {
	ends := make([]message, len(all))
	for _, c := range all {
		if _, err := io.WriteString(c.in, "go\n"); err != nil {
			return nil, err
		}
	}
	var g errgroup.Group
	for i, c := range all {
		g.Go(func() error {
			for {
				var m message
				if err := c.out.Decode(&m); err != nil {
					return fmt.Errorf("worker %d ended early: %w", i, err)
				}
				if m.Tally == nil {
					progress(i, m.Granted)
					continue
				}
				progress(i, m.Tally.Granted)
				ends[i] = m
				c.done = true
				return errors.Join(c.in.Close(), c.cmd.Wait())
			}
		})
	}
	return ends, g.Wait()
}

func (all children) dismiss() {
	for _, c := range all {
		if !c.done {
			_ = c.in.Close() // tells it to end
			_ = c.cmd.Wait()
		}
	}
}

// insiders are limiters of this process.
type insiders []*load

func startInsiders(ctx context.Context, s settings, st *store) (crew, error) {
	var all insiders
	for i := range s.Limiters {
		l, err := newLoad(st.db.Client(), task{Settings: s, Table: st.table, First: i * s.Goroutines})
		if err != nil {
			return nil, err
		}
		if err := l.warm(ctx); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

func (all insiders) run(ctx context.Context, progress func(int, int64)) ([]message, error) {
	ends := make([]message, len(all))
	var g errgroup.Group
	for i, l := range all {
		g.Go(func() error {
			sum, err := l.report(ctx, func(granted int64) { progress(i, granted) })
			progress(i, sum.Granted)
			ends[i].Tally = &sum
			return err
		})
	}
	return ends, g.Wait()
}

func (all insiders) dismiss() {}
