package llm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/prices"
)

const (
	// linger is the time that a record waits for others of its app, to share a transaction. No
	// caller waits for it.
	linger = time.Second
	// fullBatch is the most records of one submission.
	fullBatch = 100
)

// errNoResult says that a keeper returned fewer results than it was given records.
var errNoResult = errors.New("the keeper's answer has no result for the record")

// recordBatch is the records of one app that are submitted together.
type recordBatch struct {
	records []prices.Usage
	full    chan struct{} // closed when it has fullBatch records
	done    chan struct{} // closed after it was submitted
	errs    []error       // the keeper's error of each record, valid after done
	err     error         // the error of the whole submission, valid after done
}

// recordBatches are the record batches not yet submitted, one for each app. It is safe for concurrent use.
type recordBatches struct {
	keeper Keeper
	hurry  chan struct{} // Close closes it: batches are then submitted at once

	mu   sync.Mutex
	open map[[2]string]*recordBatch // by organisation and app
}

// newRecordBatches returns an empty set of batches that are submitted to keeper.
func newRecordBatches(keeper Keeper) *recordBatches {
	return &recordBatches{keeper: keeper, hurry: make(chan struct{}), open: map[[2]string]*recordBatch{}}
}

// submitTogether adds a record to its app's open batch and returns the keeper's error for it after the batch
// was submitted. The first caller of a batch waits up to wait and submits it under its own ctx. The others wait
// for that submission, even after their ctx has ended.
func (c *recordBatches) submitTogether(ctx context.Context, org, app string, record prices.Usage, wait time.Duration) error {
	key := [2]string{org, app}
	c.mu.Lock()
	g, joined := c.open[key]
	if !joined {
		g = &recordBatch{full: make(chan struct{}), done: make(chan struct{})}
		c.open[key] = g
	}
	place := len(g.records)
	g.records = append(g.records, record)
	if len(g.records) == fullBatch {
		delete(c.open, key)
		close(g.full)
	}
	c.mu.Unlock()
	if joined {
		<-g.done
	} else {
		c.submitBatch(ctx, key, g, wait)
	}
	switch {
	case g.err != nil:
		return g.err
	case place >= len(g.errs):
		return errNoResult
	}
	return g.errs[place]
}

// submitBatch waits until g is full, hurry is closed, wait is over or ctx ends. Then it closes g to further
// records and sends it to the keeper, also after ctx has ended. It sets g's errors, for a keeper that panics
// too, and closes g.done. key is the organisation and the app.
func (c *recordBatches) submitBatch(ctx context.Context, key [2]string, g *recordBatch, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.full:
	case <-c.hurry:
	case <-ctx.Done():
	}
	c.mu.Lock()
	if c.open[key] == g {
		delete(c.open, key)
	}
	c.mu.Unlock()
	defer close(g.done)
	g.err = guard.Apart(func() (err error) { // the keeper is the user's: it must not end the process behind a call
		g.errs, err = c.keeper.CountCalls(ctx, key[0], key[1], g.records)
		return err
	})
	if errors.As(g.err, new(*guard.Ended)) {
		g.err = fmt.Errorf("llm: the keeper did not return: %w", g.err)
	}
}
