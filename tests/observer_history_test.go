package tests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// tidings are events that were heard, or that callers expect: how many there were of each, what
// leases hold and what was dropped, by limit.
type tidings struct {
	mu            sync.Mutex
	events        map[string]int
	held, dropped dynalimit.Amounts
	open          map[any]bool // what has begun and not ended
	wrong         []string
}

func newTidings() *tidings {
	return &tidings{events: map[string]int{}, held: dynalimit.Amounts{}, dropped: dynalimit.Amounts{}, open: map[any]bool{}}
}

// note notes an event that changes what is held.
func (n *tidings) note(event string, change dynalimit.Amounts) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events[event]++
	addTo(n.held, change)
}

func addTo(sum, amounts dynalimit.Amounts) {
	for limit, n := range amounts {
		sum[limit] += n
	}
}

// turns notes that something begins, or ends, which it does by turns.
func (n *tidings) turns(what any, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[what] == on {
		n.wrong = append(n.wrong, fmt.Sprintf("%v: %t twice", what, on))
	}
	if n.open[what] = on; !on {
		delete(n.open, what)
	}
}

func (n *tidings) observer() observe.Observer {
	start := func(ctx context.Context) context.Context {
		id := new(int)
		n.turns(id, true)
		return context.WithValue(ctx, spanKey{}, id)
	}
	end := func(ctx context.Context) { n.turns(ctx.Value(spanKey{}), false) }
	return observe.Observer{
		AcquireStart: func(ctx context.Context, _ observe.AcquireStart) context.Context { return start(ctx) },
		AcquireEnd: func(ctx context.Context, e observe.AcquireEnd) {
			if end(ctx); e.Err != nil {
				e.Amounts = nil
			}
			n.note("acquire "+endOf(e.Err), e.Amounts)
		},
		Denied:              func(_ context.Context, e observe.Denial) { n.note(fmt.Sprintf("denied: %t", len(e.Exceeded) > 0), nil) },
		Corrected:           func(_ context.Context, e observe.Correction) { n.note(string(e.Kind), e.Change) },
		WriteStart:          func(ctx context.Context, _ observe.WriteStart) context.Context { return start(ctx) },
		WriteEnd:            func(ctx context.Context, _ observe.WriteEnd) { end(ctx) },
		AvailabilityChanged: func(e observe.AvailabilityChange) { n.turns(e.Table, e.Open) },
		PacingChanged:       func(e observe.PacingChange) { n.turns(e.EntityID+" "+e.Resource, e.Paced) },
		Dropped: func(e observe.Drop) {
			n.mu.Lock()
			defer n.mu.Unlock()
			addTo(n.dropped, e.Amounts)
		},
	}
}

// endOf is how a call ended.
func endOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, dynalimit.ErrLimitExceeded):
		return "denied"
	}
	return "failed"
}

// Whatever callers of a key and its team do to their leases, also after their end, and whatever
// fails: each event is heard as often as it happened, what leases hold and what was lost is the
// sum over the events, and where nothing is unsure that is what the table says.
func TestEventsAddUp(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			operator, heard, known := liveProcess(t, memEngine(t), nil), newTidings(), newTidings()
			operator.family("key", "team")
			operator.limits(admin.Scope{Everyone: true}, dynalimit.PerSecond("rpm", 40), dynalimit.PerMinute("tpm", 5_000).WithMaxDebt(100), dynalimit.PerDay("trial", 30).Shadowed())
			operator.limits(admin.Scope{Everyone: true, Resource: "pool"}, dynalimit.PerMinute("tpm", 5_000))
			s := operator.peer(&dynalimit.Options{
				Observer: heard.observer(), Prefetch: time.Duration(r.IntN(2)) * 250 * time.Millisecond,
				OnUnavailable: []dynalimit.UnavailablePolicy{dynalimit.Allow, dynalimit.Local, dynalimit.Block}[r.IntN(3)],
				Cascade:       []dynalimit.CascadeMode{dynalimit.CascadeParallel, dynalimit.CascadeTransaction}[r.IntN(2)],
			})
			s.slowly(2*time.Millisecond, 2*time.Millisecond)
			var calls sync.WaitGroup
			for i := range 8 {
				calls.Go(func() { s.callsAtRandom(rand.New(rand.NewPCG(seed, uint64(10+i))), known) })
			}
			elapse(time.Duration(r.IntN(400)) * time.Millisecond)
			switch fault := r.IntN(5); fault {
			case 3:
				s.silence([]string{"key", "team"}[r.IntN(2)])
			case 0, 1, 2:
				s.down([]ddbmem.Fault{{Drop: true}, {After: time.Hour}, throttled1}[fault])
			}
			if elapse(time.Duration(r.IntN(7000)) * time.Millisecond); r.IntN(2) == 0 {
				s.db.SetFaults(nil)
			}
			calls.Wait()
			if r.IntN(2) == 0 {
				s.db.SetFaults(nil)
				elapse(40 * time.Second)
			}
			err := s.limiter.Close(t.Context())
			h := s.limiter.Health()
			s.db.SetFaults(nil)
			elapse(time.Minute)

			lost := maps.Clone(h.Dropped)
			if e, is := errors.AsType[*dynalimit.UnconfirmedError](err); is {
				lost = sumOf(lost, e.Amounts)
			}
			for what := range heard.open {
				assert.IsType(t, "", what, "seed %d: a call or a write has no end", seed)
			}
			assert.Empty(t, heard.wrong, "seed %d", seed)
			assert.Equal(t, known.events, heard.events, "seed %d", seed)
			assert.Equal(t, known.held, heard.held, "seed %d", seed)
			assert.Equal(t, sumOf(lost), heard.dropped, "seed %d: %v", seed, err)
			if known.wrong == nil && known.held["rpm"] > 0 {
				for _, limit := range []string{"rpm", "trial"} { // of which the pool has none
					assert.InDelta(t, known.held[limit], operator.stored("team", limit).Consumed/milli, float64(h.Doubt[limit]+lost[limit]), "seed %d: %s", seed, limit)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func sumOf(all ...dynalimit.Amounts) dynalimit.Amounts {
	sum := dynalimit.Amounts{}
	for _, amounts := range all {
		addTo(sum, amounts)
	}
	return sum
}

// callsAtRandom acquires and corrects, and notes which events that makes.
func (s *process) callsAtRandom(r *rand.Rand, known *tidings) {
	for range 12 {
		amounts, acquire := dynalimit.Amounts{"rpm": 1 + r.Int64N(4), "trial": r.Int64N(5)}, s.limiter.Acquire
		if r.IntN(2) == 0 {
			amounts["tpm"] = r.Int64N(500)
		}
		var opts []dynalimit.AcquireOption
		if r.IntN(5) == 0 {
			acquire = s.limiter.Wait
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(1+r.IntN(2000))*time.Millisecond)
		lease, err := acquire(ctx, []string{"key", "team"}[r.IntN(2)], model, amounts, opts...)
		cancel()
		known.note("acquire "+endOf(err), nil)
		if endOf(err) == "denied" {
			known.note("denied: true", nil)
		}
		if err != nil {
			elapse(time.Duration(r.IntN(100)) * time.Millisecond)
			continue
		}
		for ended := false; r.IntN(4) > 0; elapse(time.Duration(r.IntN(40)) * time.Millisecond) {
			if kind, err := correctsAtRandom(s.t.Context(), r, lease); !ended {
				ended = known.corrected(kind, err)
			}
		}
		known.mu.Lock()
		addTo(known.held, lease.Consumed())
		known.mu.Unlock()
	}
}

// correctsAtRandom corrects a lease once.
func correctsAtRandom(ctx context.Context, r *rand.Rand, lease *dynalimit.Lease) (observe.CorrectionKind, error) {
	limit, n := []string{"tpm", "trial"}[r.IntN(2)], r.Int64N(200)
	switch amounts := (dynalimit.Amounts{limit: n}); r.IntN(6) {
	case 0:
		hurried, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(20))*time.Millisecond)
		defer cancel()
		return observe.CorrectionConsume, lease.Consume(hurried, amounts)
	case 1:
		return observe.CorrectionAdjust, lease.Adjust(ctx, dynalimit.Amounts{limit: max(-lease.Consumed()[limit], n-100)})
	case 2:
		return observe.CorrectionSettle, lease.Settle(ctx, nil)
	case 3:
		return observe.CorrectionSettle, lease.Settle(ctx, amounts)
	case 4:
		return observe.CorrectionRollback, lease.Rollback(ctx)
	default:
		told := make(chan error, 1)
		if err := lease.SettleSoon(ctx, amounts, func(err error) { told <- err }); err != nil {
			return observe.CorrectionSettle, err
		}
		return observe.CorrectionSettle, <-told
	}
}

// corrected notes what comes of a correction of a lease. It reports whether the lease ended by it.
func (n *tidings) corrected(kind observe.CorrectionKind, err error) (ended bool) {
	unsure, is := errors.AsType[*dynalimit.UnconfirmedError](err)
	switch {
	case is: // some levels may have it, and others not
		n.mu.Lock()
		n.wrong = append(n.wrong, err.Error())
		n.mu.Unlock()
	case endOf(err) == "denied":
		n.note("denied: true", nil)
		return false
	case errors.As(err, new(*dynalimit.ValidationError)):
		return false
	}
	n.note(string(kind), nil)
	ends := kind == observe.CorrectionSettle || kind == observe.CorrectionRollback
	return ends && !(is && unsure.NotWritten)
}
