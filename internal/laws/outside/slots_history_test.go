package outside

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/laws"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Histories of calls in flight: a limit of slots beside a bucket, with cut, frozen and dead processes, lost answers,
// deleted buckets, and limits that change their number, their hold and, by another source, their kind.

// slots is the limit of calls in flight, and slotsTTL the TTL of configurations.
const (
	slots    = "slots"
	slotsTTL = 20 * time.Second
)

// slotHolds are the holds of the limit.
var slotHolds = []time.Duration{30 * time.Second, 40 * time.Second, time.Minute}

// slotsWorld are the troubles of one history.
type slotsWorld struct {
	policy dynalimit.UnavailablePolicy
	// faults are single requests that go wrong, cuts are processes without a network for a while, and crashes are
	// processes that end with open calls.
	faults, cuts, crashes bool
	latency               time.Duration
	// numbers are changes of the number of slots and the hold, kinds are sources in which the limit is a bucket,
	// and deletes are deleted buckets.
	numbers, kinds, deletes bool
	together, waits, family bool
	skew                    time.Duration
	maxBuckets              int
	longest                 time.Duration
}

func slotsWorldOf(seed uint64) slotsWorld {
	r := rand.New(rand.NewPCG(seed, 11))
	maybe := func(p float64) bool { return r.Float64() < p }
	w := slotsWorld{
		policy: []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local}[r.IntN(3)],
		faults: maybe(.3), cuts: maybe(.4), crashes: maybe(.4), numbers: maybe(.3), kinds: maybe(.3), deletes: maybe(.2),
		together: maybe(.3), waits: maybe(.4), family: maybe(.3), longest: time.Hour,
	}
	if maybe(.5) {
		w.latency = 40 * time.Millisecond
	}
	if maybe(.3) {
		w.skew = 900 * time.Millisecond
	}
	if maybe(.2) {
		w.maxBuckets = 2
	}
	if maybe(.2) {
		w.longest = 2 * time.Minute
	}
	return w
}

// slotsHistory is one generated run.
type slotsHistory struct {
	slotsWorld
	t        *testing.T
	db       *ddbmem.DB
	operator *dynalimit.Repository
	entities []string
	oracle   *slotsOracle
	calm     atomic.Bool

	mu      sync.Mutex // guards the fields below
	luck    *rand.Rand
	members []*wired
	all     []*wired
	wide    int64
	hold    time.Duration
}

// wired is a process with a network of its own.
type wired struct {
	h       *slotsHistory
	limiter *dynalimit.RateLimiter
	dead    atomic.Bool
	looks   laws.Looks
	// cut is the present failure of the network; nil if it works.
	cut atomic.Pointer[cutting]
	// whole is the instant, in Unix ms, from which the network has worked without a cut.
	whole atomic.Int64
}

// cutting is a failure of a process's network until healed is closed: requests fail at once, hang, lose their answers, or
// stop on their way and land late.
type cutting struct {
	how    int
	healed chan struct{}
}

// Do sends a request through the network of the process.
func (w *wired) Do(r *http.Request) (*http.Response, error) {
	cut := w.cut.Load()
	switch {
	case w.dead.Load():
		return nil, syscall.ECONNRESET
	case cut == nil:
		return w.h.db.Do(r)
	}
	switch cut.how {
	case 0:
		return nil, syscall.ECONNREFUSED
	case 1:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case 2:
		if reply, err := w.h.db.Do(r); err == nil {
			_ = reply.Body.Close()
		}
		return nil, syscall.ECONNRESET
	default:
		select {
		case <-cut.healed:
			return w.h.db.Do(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func newSlotsHistory(t *testing.T, seed uint64, w slotsWorld) (*slotsHistory, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 12))
	h := &slotsHistory{
		slotsWorld: w, t: t, db: ddbmem.New(), luck: rand.New(rand.NewPCG(seed, 13)), oracle: newSlotsOracle(w), entities: []string{"a"},
		wide: 1 + r.Int64N(4), hold: slotHolds[r.IntN(3)],
	}
	if w.family {
		h.entities = []string{"a", "org"}
	}
	h.db.OnWrite(h.oracle.committed)
	var err error
	h.operator, err = dynalimit.NewRepository(h.db.Client(), "limits", &dynalimit.RepositoryOptions{Now: time.Now, AllowAnonymous: true})
	require.NoError(t, err)
	require.NoError(t, h.operator.CreateTable(t.Context()))
	if w.family {
		require.NoError(t, admin.New(h.operator).Entities.Create(t.Context(), admin.Entity{ID: "org"}))
		require.NoError(t, admin.New(h.operator).Entities.Create(t.Context(), admin.Entity{ID: "a", ParentID: "org", Cascade: true}))
	}
	h.setSlots()
	h.db.SetFaults(h.fault)
	for range 2 + r.IntN(3) {
		h.begin(r)
	}
	return h, r
}

// setSlots sets the limits for everybody. h.mu must be held, except at the start.
func (h *slotsHistory) setSlots() {
	limit := dynalimit.Concurrent(slots, h.wide, h.hold).WithLongest(h.longest)
	require.NoError(h.t, h.set(admin.Scope{Everyone: true}, limit))
	h.oracle.holdIs(h.hold)
}

// set sets the limit beside a bucket.
func (h *slotsHistory) set(at admin.Scope, limit dynalimit.Limit) error {
	_, err := admin.New(h.operator).Limits.SetConfig(laws.Quietly(h.t.Context()), at, admin.LimitConfig{
		Limits: []dynalimit.Limit{limit, dynalimit.PerMinute("rpm", 1000)}, Version: admin.AnyVersion, Only: true,
	})
	return err
}

// begin begins a process. h.mu must be held, except at the start.
func (h *slotsHistory) begin(r *rand.Rand) {
	m, skew := &wired{h: h}, time.Duration(0)
	m.whole.Store(time.Now().UnixMilli())
	if h.skew > 0 {
		skew = time.Duration(r.Int64N(int64(2*h.skew))) - h.skew
	}
	repo, err := dynalimit.NewRepository(h.db.Client(func(o *dynamodb.Options) { o.HTTPClient = m }), "limits", &dynalimit.RepositoryOptions{
		ConfigTTL: slotsTTL, AllowAnonymous: true,
		Now: func() time.Time {
			if m.looks.Add() > mostLooks {
				panic(fmt.Sprintf("a limiter spins: it looked at its clock %d times in a minute, in %+v", mostLooks, h.slotsWorld))
			}
			return time.Now().Add(skew)
		},
	})
	require.NoError(h.t, err)
	o := &dynalimit.Options{OnUnavailable: h.policy, LocalShare: .5, MaxBuckets: h.maxBuckets}
	if h.together && r.IntN(2) == 0 {
		o.ChargeMode = dynalimit.ChargeTransaction
	}
	m.limiter, err = dynalimit.New(repo, o)
	require.NoError(h.t, err)
	h.members, h.all = append(h.members, m), append(h.all, m)
}

// fault decides what goes wrong with a request.
func (h *slotsHistory) fault(q *ddbmem.Request) (f ddbmem.Fault) {
	if h.calm.Load() || laws.IsQuiet(q) {
		return f
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.latency > 0 {
		f.Before, f.After = time.Duration(h.luck.Int64N(int64(h.latency))), time.Duration(h.luck.Int64N(int64(h.latency)))
	}
	if !h.faults {
		return f
	}
	switch p := h.luck.Float64(); {
	case p < .05:
		f.Lose = true
	case p < .08:
		f.Drop = true
	case p < .10:
		f.Error = laws.Throttled
	case p < .12:
		f.Error = &ddbmem.Error{Code: "InternalServerError"}
	case p < .13:
		f.After = 3 * time.Second // it lands, and nobody waits for its answer
	}
	return f
}

// step is one thing that a worker does.
func (h *slotsHistory) step(r *rand.Rand) {
	if r.IntN(2) == 0 {
		pauses := []int64{0, 1, 20, 900, r.Int64N(5000), r.Int64N(70_000)}
		laws.Elapse(time.Duration(pauses[r.IntN(len(pauses))]) * time.Millisecond)
	}
	h.mu.Lock()
	m := h.members[r.IntN(len(h.members))]
	h.mu.Unlock()
	switch p := r.Float64(); {
	case p < .04 && h.cuts:
		h.sever(r, m)
	case p < .06 && h.crashes:
		h.crash(r, m)
	case p < .12 && (h.numbers || h.kinds):
		h.change(r)
	case p < .14 && h.deletes:
		if err := h.deleteBucket(h.entities[r.IntN(len(h.entities))]); err != nil {
			h.oracle.fail("delete: %v", err)
		}
	case p < .55:
		h.acquire(r, m)
	case p < .6:
		h.consume(r)
	default:
		h.end(r, 1+r.IntN(5)/4)
	}
}

// deleteBucket deletes the bucket of an entity.
func (h *slotsHistory) deleteBucket(entity string) error {
	h.oracle.count("deleted")
	_, err := h.db.Client().DeleteItem(laws.Quietly(h.t.Context()), &dynamodb.DeleteItemInput{
		TableName: new("limits"), Key: schema.Keys{}.Bucket(entity, "gpt-4").Attributes(),
	})
	return err
}

// sever cuts a process's network for a while.
func (h *slotsHistory) sever(r *rand.Rand, m *wired) {
	cut := &cutting{how: r.IntN(4), healed: make(chan struct{})}
	if !m.cut.CompareAndSwap(nil, cut) {
		return
	}
	h.oracle.count("cut")
	m.whole.Store(1 << 60)
	h.oracle.lost(m)
	h.mu.Lock()
	lasts := []time.Duration{time.Second, h.hold / 8, h.hold, 3 * h.hold}[r.IntN(4)]
	h.mu.Unlock()
	time.AfterFunc(time.Duration(r.Int64N(int64(lasts))), func() { m.heal(cut) })
}

// heal ends the cut of a process's network.
func (w *wired) heal(cut *cutting) {
	if cut != nil && w.cut.CompareAndSwap(cut, nil) {
		w.whole.Store(time.Now().UnixMilli())
		close(cut.healed)
	}
}

// crash ends a process with its open calls, and begins another.
func (h *slotsHistory) crash(r *rand.Rand, m *wired) {
	if !m.dead.CompareAndSwap(false, true) {
		return
	}
	h.oracle.count("crashed")
	h.oracle.died(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.members {
		if h.members[i] == m {
			h.members = append(h.members[:i], h.members[i+1:]...)
			break
		}
	}
	h.begin(r)
}

// change changes the number of slots or the hold, or the kind of the limit by another source.
func (h *slotsHistory) change(r *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.kinds || h.numbers && r.IntN(2) == 0 {
		h.wide = 1 + r.Int64N(5)
		if r.IntN(3) == 0 {
			h.hold = slotHolds[r.IntN(3)]
		}
		h.setSlots()
		h.oracle.count("other number")
		return
	}
	at := admin.Scope{Entity: h.entities[r.IntN(len(h.entities))]}
	var err error
	if r.IntN(2) == 0 {
		err = h.set(at, dynalimit.PerMinute(slots, 50))
	} else if err = admin.New(h.operator).Limits.Delete(laws.Quietly(h.t.Context()), at); errors.Is(err, admin.ErrNotFound) {
		err = nil
	}
	if err != nil {
		h.oracle.fail("a change failed: %v", err)
	}
}

// context is that of a call, which ends early sometimes.
func (h *slotsHistory) context(r *rand.Rand) (context.Context, context.CancelFunc) {
	if r.IntN(10) == 0 {
		return context.WithTimeout(h.t.Context(), time.Duration(r.Int64N(100))*time.Millisecond)
	}
	return context.WithTimeout(h.t.Context(), 30*time.Second)
}

// acquire takes slots with one caller or several.
func (h *slotsHistory) acquire(r *rand.Rand, m *wired) {
	level := r.IntN(len(h.entities))
	entity := h.entities[level]
	var callers sync.WaitGroup
	for range 1 + r.IntN(2)*r.IntN(6) {
		amounts := dynalimit.Amounts{slots: 1 + r.Int64N(5)/4, "rpm": 1}
		ctx, cancel := h.context(r)
		call := m.limiter.Acquire
		if h.waits && r.IntN(3) == 0 {
			call = m.limiter.Wait
		}
		callers.Go(func() {
			defer cancel()
			began := time.Now()
			lease, err := call(ctx, entity, "gpt-4", amounts)
			if h.recordError(m, err); err == nil {
				h.oracle.admitted(m, lease, amounts[slots], began, h.entities[level:])
			}
		})
	}
	callers.Wait()
}

// consume takes further slots for an open lease.
func (h *slotsHistory) consume(r *rand.Rand) {
	l := h.oracle.borrow(r)
	if l == nil {
		return
	}
	defer l.busy.Store(false)
	ctx, cancel := h.context(r)
	defer cancel()
	err := l.Consume(ctx, dynalimit.Amounts{slots: 1})
	h.recordError(l.of, err)
	h.oracle.consumed(l, err)
}

// end ends a lease, sometimes by two callers at once.
func (h *slotsHistory) end(r *rand.Rand, callers int) {
	l := h.oracle.borrow(r)
	if l == nil {
		return
	}
	defer l.busy.Store(false)
	h.oracle.ends(l)
	ctx, cancel := h.context(r)
	defer cancel()
	var group sync.WaitGroup
	for range callers {
		how := r.IntN(4)
		group.Go(func() {
			var err error
			switch how {
			case 0:
				err = l.Settle(ctx, dynalimit.Amounts{"rpm": 2})
			case 1:
				err = l.Settle(ctx, dynalimit.Amounts{slots: 0})
			case 2:
				err = l.SettleSoon(ctx, nil, func(err error) { h.recordError(l.of, err) })
			default:
				err = l.Rollback(ctx)
			}
			h.recordError(l.of, err)
		})
	}
	group.Wait()
	h.oracle.count("ended")
}

// recordError notes an error that this history cannot explain.
func (h *slotsHistory) recordError(m *wired, err error) {
	var wrong *dynalimit.ValidationError
	troubled := h.faults || h.cuts || m.dead.Load()
	switch {
	case err == nil:
	case errors.Is(err, dynalimit.ErrLimitExceeded):
		h.oracle.count("denied")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, dynalimit.ErrLeaseEnded):
	case troubled && (errors.Is(err, dynalimit.ErrUnavailable) || errors.Is(err, dynalimit.ErrUnconfirmed)):
	case errors.Is(err, dynalimit.ErrContended):
	case errors.As(err, &wrong) && h.kinds:
	default:
		h.oracle.fail("unexpected: %v", err)
	}
}

// rest ends all trouble, and compares the taken slots with the open calls: while calls are open, and after their end.
func (h *slotsHistory) rest() {
	h.calm.Store(true)
	for _, m := range h.all {
		m.heal(m.cut.Load())
	}
	h.db.Wait()
	laws.Elapse(5 * time.Minute)
	h.oracle.settled(h.entities, true)
	h.oracle.endAll(h.t.Context())
	h.db.Wait()
	laws.Elapse(5 * time.Second)
	h.oracle.settled(h.entities, false)
	for _, m := range h.all {
		if !m.dead.Load() {
			if err := m.limiter.Close(context.WithoutCancel(h.t.Context())); err != nil {
				h.oracle.fail("close: %v", err)
			}
		}
	}
	for _, m := range h.all {
		_ = m.limiter.Close(context.WithoutCancel(h.t.Context()))
	}
	laws.Elapse(time.Minute)
	h.db.Wait()
}

// playSlots plays a history and returns what broke a law.
func playSlots(t *testing.T, seed uint64, w slotsWorld) (violations []string, tally map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		h, r := newSlotsHistory(t, seed, w)
		var workers sync.WaitGroup
		n := 1 + r.IntN(4)
		for range n {
			own := rand.New(rand.NewPCG(r.Uint64(), 14))
			workers.Go(func() {
				for range 100 / n {
					h.step(own)
				}
			})
		}
		workers.Wait()
		h.rest()
		violations, tally = h.oracle.violations, h.oracle.tally
		h.db.Close()
	})
	return violations, tally
}

// TestSlotsFromOutside plays histories of calls in flight.
func TestSlotsFromOutside(t *testing.T) {
	first, end := laws.Seeds(t, 60, 1)
	sum := map[string]int{}
	for seed := first; seed < end; seed++ {
		w := slotsWorldOf(seed)
		violations, tally := playSlots(t, seed, w)
		if len(violations) > 0 {
			t.Errorf("DYNALIMIT_SEED=%d, %+v: %d violations, the first: %s", seed, w, len(violations), violations[0])
		}
		for what, n := range tally {
			sum[what] += n
		}
	}
	t.Logf("%d histories: %v", end-first, sum)
	if end-first > 50 { // a history in which nothing happens proves nothing
		for _, what := range []string{"admitted", "denied", "degraded", "ended", "cut", "crashed", "other number", "other kind", "above zero in the end", "judged"} {
			require.Positive(t, sum[what], what)
		}
	}
}
