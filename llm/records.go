package llm

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/prices"
)

// maxWaiting is the most pending records.
const maxWaiting = 1_000

// sendBackoff is the wait between two tries of a record.
var sendBackoff = ddb.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

var errWaiting = errors.New("the queue of records for the keeper is full")

// Refused is a record that the keeper does not have, and that the guard stopped sending.
type Refused struct {
	// Org and App are the owner and the program of the call's budget.
	Org, App string
	// Record is the call's usage as the budget keeps it.
	Record prices.Usage
	// Err is the keeper's refusal, or the last failure before Close gave up.
	Err error
}

// records sends the usage of calls to the keeper, in the background, until the keeper has it.
type records struct {
	keeper  Keeper
	refused func(Refused)
	slots   chan struct{} // one for each pending record
	closing chan struct{} // one while Close waits

	mu      sync.Mutex
	waiting *pendingRecords
}

// pendingRecords are the pending records taken since the last Close began.
type pendingRecords struct {
	ctx  context.Context // Close may end it
	stop context.CancelFunc
	all  sync.WaitGroup
	// leases are the leases that settle in the background.
	leases sync.WaitGroup
	*recordBatches
}

// newPendingRecords returns an empty set of pending records and leases for the keeper. The caller must call its
// stop function, which ends their submissions.
func newPendingRecords(keeper Keeper) *pendingRecords {
	p := &pendingRecords{recordBatches: newRecordBatches(keeper)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// newRecords returns a sender of records to the keeper. It passes refused records to the callback, or logs
// them if that is nil.
func newRecords(keeper Keeper, refused func(Refused)) *records {
	r := &records{
		keeper: keeper, refused: refused, slots: make(chan struct{}, maxWaiting), closing: make(chan struct{}, 1), waiting: newPendingRecords(keeper),
	}
	if r.refused == nil {
		r.refused = logRefused
	}
	return r
}

// logRefused logs a record that is not counted, as an error of slog.Default.
func logRefused(r Refused) {
	slog.Error("llm: a call is not counted", "org", r.Org, "app", r.App, "record", r.Record, "error", r.Err)
}

// logEnded returns a function that logs an error to slog.Default: the named callback of Options panicked or
// ended its goroutine.
func logEnded(callback string) func(*guard.Ended) {
	return func(e *guard.Ended) {
		slog.Error("llm: Options."+callback+" did not return", "cause", e, "stack", string(e.Stack))
	}
}

// queueRecord queues a record, starts to send it in the background, and returns nil. Refused records go to the
// callback. If maxWaiting records are pending, it waits for a free slot; if ctx ends before, it returns an
// *UnavailableError.
func (r *records) queueRecord(ctx context.Context, org, app string, record prices.Usage) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return &UnavailableError{Package: "llm", Op: "Settle", Err: errWaiting}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.waiting
	of.all.Go(func() {
		defer func() { <-r.slots }()
		if err := r.sendRecord(of, org, app, record); err != nil {
			guard.Call(func() { r.refused(Refused{org, app, record, err}) }, logEnded("OnRefused"))
		}
	})
	return nil
}

// followLease makes Close wait for a lease that settles in the background, until the caller runs done, once.
func (r *records) followLease() (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.waiting
	of.leases.Add(1)
	return of.leases.Done
}

// sendRecord submits a record in a batch that collects for a second, or at once if over 500 are pending, and
// returns the keeper's error. It retries while the keeper is unavailable, until Close gives up. A record sent
// twice counts once.
func (r *records) sendRecord(of *pendingRecords, org, app string, record prices.Usage) error {
	for n := 0; ; n++ {
		wait := linger
		if len(r.slots) > maxWaiting/2 {
			wait = 0
		}
		err := of.submitTogether(of.ctx, org, app, record, wait)
		if !errors.Is(err, fault.ErrUnavailable) || !sendBackoff.Pause(of.ctx, n) {
			return err
		}
	}
}

// waitForPending submits open batches at once, and waits for the records and leases taken before it, not for
// later ones. When ctx ends, it gives up the pending records and returns ctx's error; leases continue until the
// next call. A second call waits for the first.
func (r *records) waitForPending(ctx context.Context) (err error) {
	select {
	case r.closing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.closing }()
	r.mu.Lock()
	taken := r.waiting
	r.waiting = newPendingRecords(r.keeper)
	close(taken.hurry)
	r.mu.Unlock()
	leases, all := closedWhenDone(&taken.leases), closedWhenDone(&taken.all)
	for _, done := range []<-chan struct{}{leases, all} {
		select {
		case <-done:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	taken.stop()
	<-all
	r.inheritLeases(leases)
	return err
}

// inheritLeases makes the next Close wait for leases that this one gave up. The channel leases closes when they
// have settled; if it is closed already, nothing happens.
func (r *records) inheritLeases(leases <-chan struct{}) {
	select {
	case <-leases:
	default:
		follow := r.followLease()
		go func() {
			<-leases
			follow()
		}()
	}
}

// closedWhenDone returns a channel that is closed when the group is done. A goroutine waits for that.
func closedWhenDone(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	return done
}
