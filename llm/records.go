package llm

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// maxWaiting is how many records wait for the keeper at a time.
const maxWaiting = 1_000

// sendBackoff is the wait between two tries of a record.
var sendBackoff = ddb.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

var errWaiting = errors.New("as many records wait for the keeper as may")

// Refused is a record that the keeper does not have, and that is sent no more.
type Refused struct {
	// Org and App are whose budget the call was to be counted in.
	Org, App string
	// Record is the call's usage as the budget keeps it.
	Record budget.Usage
	// Err is why: what the keeper refuses it for, or its last failure before Close gave up.
	Err error
}

// records hands what calls used to the keeper, after the calls, until it has it.
type records struct {
	keeper  Keeper
	refused func(Refused)
	slots   chan struct{} // one is in it for each record that waits
	closing chan struct{} // one is in it while Close waits

	mu   sync.Mutex
	ctx  context.Context // of what waits; Close may end it
	stop context.CancelFunc
}

func newRecords(keeper Keeper, refused func(Refused)) *records {
	r := &records{keeper: keeper, refused: refused, slots: make(chan struct{}, maxWaiting), closing: make(chan struct{}, 1)}
	if r.refused == nil {
		r.refused = logRefused
	}
	r.renew()
	return r
}

func logRefused(r Refused) {
	slog.Error("llm: a call is not counted", "org", r.Org, "app", r.App, "record", r.Record, "error", r.Err)
}

func (r *records) renew() { r.ctx, r.stop = context.WithCancel(context.Background()) }

// take takes a record over. While too many wait, it waits for one of them until ctx ends.
func (r *records) take(ctx context.Context, org, app string, record budget.Usage) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return &UnavailableError{Package: "llm", Op: "Settle", Err: errWaiting}
	}
	r.mu.Lock()
	lasting := r.ctx
	r.mu.Unlock()
	go func() {
		defer func() { <-r.slots }()
		if err := r.send(lasting, org, app, record); err != nil {
			r.refused(Refused{org, app, record, err})
		}
	}()
	return nil
}

// send submits a record until the keeper answers. Sent twice it is counted once.
func (r *records) send(ctx context.Context, org, app string, record budget.Usage) error {
	for n := 0; ; n++ {
		_, err := r.keeper.Submit(ctx, org, app, record)
		if !errors.Is(err, budget.ErrUnavailable) || !sendBackoff.Pause(ctx, n) {
			return err
		}
	}
}

// drain waits until nothing waits any more. When ctx ends, it gives up what does.
func (r *records) drain(ctx context.Context) (err error) {
	select {
	case r.closing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.closing }()
	for range cap(r.slots) {
		select {
		case r.slots <- struct{}{}:
			continue
		case <-ctx.Done():
		}
		if err == nil {
			err = ctx.Err()
			r.mu.Lock()
			r.stop()
			r.renew()
			r.mu.Unlock()
		}
		r.slots <- struct{}{}
	}
	for range cap(r.slots) {
		<-r.slots
	}
	return err
}
