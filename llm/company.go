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
	// fullCompany is the most records of one submission.
	fullCompany = 100
)

// errNoResult says that a keeper returned fewer results than it was given records.
var errNoResult = errors.New("the keeper did not say what became of the record")

// company is the records of one app that are submitted together.
type company struct {
	records []prices.Usage
	full    chan struct{} // closed when no more may join
	done    chan struct{} // closed when it was submitted
	errs    []error       // of each record
	err     error         // of all
}

// companies are the companies not yet submitted.
type companies struct {
	keeper Keeper
	hurry  chan struct{} // closed when none waits any longer

	mu   sync.Mutex
	open map[[2]string]*company // by organisation and app
}

func newCompanies(keeper Keeper) *companies {
	return &companies{keeper: keeper, hurry: make(chan struct{}), open: map[[2]string]*company{}}
}

// submitTogether counts a record together with the records of its app that arrive within wait.
func (c *companies) submitTogether(ctx context.Context, org, app string, record prices.Usage, wait time.Duration) error {
	key := [2]string{org, app}
	c.mu.Lock()
	g, joined := c.open[key]
	if !joined {
		g = &company{full: make(chan struct{}), done: make(chan struct{})}
		c.open[key] = g
	}
	place := len(g.records)
	g.records = append(g.records, record)
	if len(g.records) == fullCompany {
		delete(c.open, key)
		close(g.full)
	}
	c.mu.Unlock()
	if joined {
		<-g.done
	} else {
		c.leadCompany(ctx, key, g, wait)
	}
	switch {
	case g.err != nil:
		return g.err
	case place >= len(g.errs):
		return errNoResult
	}
	return g.errs[place]
}

// leadCompany submits a company when it is full, or has waited long enough.
func (c *companies) leadCompany(ctx context.Context, key [2]string, g *company, wait time.Duration) {
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
