package laws

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
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
)

const (
	table     = "limits"
	resource  = "gpt-4"
	configTTL = 60 * time.Second
)

// parameters are the parameters that limits are given: burst, amount, seconds.
var parameters = [][3]int64{{100, 100, 60}, {10, 60, 60}, {5000, 1000, 60}, {100, 10000, 60}, {50, 50, 86400}}

var limitNames = []string{"rpm", "tpm", "day"}

// history is one generated run of several limiters on one table.
type history struct {
	mode     Mode
	inside   Inside
	t        *testing.T
	db       *ddbmem.DB
	oracle   *oracle
	operator *dynalimit.Repository
	entities []string // the leaf first
	settled  atomic.Bool
	// ctx is what calls are made under; stop ends it when one of them spins.
	ctx  context.Context
	stop context.CancelFunc

	r *rand.Rand // the history's own goroutine's
	// waits lets calls wait; together lets them charge in transactions.
	waits, together bool
	// horizon is for how long ahead limiters debit; closed says that they were closed
	// when it ended.
	horizon time.Duration
	closed  bool

	mu      sync.Mutex // guards what follows
	luck    *rand.Rand // which requests fail
	members []*member
	leases  []*grant
	retired []*member
	config  map[string][]dynalimit.Limit // by entity, as in force
	late    []chan struct{}
	// throttled are the partitions of buckets that throttle, by entity.
	throttled map[string]*partition
	// silent is until when the store does not answer at all.
	silent time.Time
	told   map[string]int64 // what callers were granted, by entity and limit
	errs   []error
}

// member is a limiter with a clock and caches of its own.
type member struct {
	limiter *dynalimit.RateLimiter
	repo    *dynalimit.Repository
	skew    time.Duration
	dead    atomic.Bool
	// looks are those at the clock in this minute: who spins looks often.
	looks, minute atomic.Int64
}

// grant is a lease and who holds it.
type grant struct {
	*dynalimit.Lease
	owner *member
	stake *stake
	// entity is whom it charges; allows says that it was asked for with a policy
	// of Allow, and so may be admitted by whatever configuration there is.
	entity string
	allows bool
	ended  bool
	busy   bool
}

// mortal is a client's transport: it dies with its process.
type mortal struct {
	db *ddbmem.DB
	m  *member
}

func (m mortal) Do(r *http.Request) (*http.Response, error) {
	if m.m.dead.Load() {
		return nil, syscall.ECONNRESET
	}
	return m.db.Do(r)
}

// quiet marks requests that no fault hits.
type quiet struct{}

func quietly(ctx context.Context) context.Context { return context.WithValue(ctx, quiet{}, true) }

func newHistory(t *testing.T, seed uint64, mode Mode, in Inside) *history {
	h := &history{
		mode: mode, inside: in, t: t, db: ddbmem.New(), oracle: newOracle(), r: rand.New(rand.NewPCG(seed, 1)), luck: rand.New(rand.NewPCG(seed, 3)), config: map[string][]dynalimit.Limit{},
		told: map[string]int64{}, throttled: map[string]*partition{},
	}
	h.ctx, h.stop = context.WithCancel(t.Context())
	h.waits = h.r.IntN(2) == 0
	h.together = h.r.IntN(3) > 0
	if mode.ahead {
		h.horizon = time.Duration(250+h.r.IntN(2000)) * time.Millisecond
		h.closed = h.r.IntN(2) == 0
	}
	h.db.OnWrite(h.oracle.committed)
	var err error
	h.operator, err = dynalimit.NewRepository(h.db.Client(), table, &dynalimit.RepositoryOptions{Now: time.Now, Principal: "ops@example.com"})
	require.NoError(t, err)
	ctx := quietly(t.Context())
	require.NoError(t, h.operator.CreateTable(ctx))
	h.entities = []string{"key", "project", "org"}[:1+h.r.IntN(3)]
	for i := len(h.entities) - 1; i >= 0; i-- {
		require.NoError(t, admin.New(h.operator).Entities.Create(ctx, h.entity(i)))
	}
	require.NoError(t, admin.New(h.operator).Limits.Set(ctx, admin.Scope{Everyone: true}, h.limits(h.r)))
	h.published(ctx)
	h.db.SetFaults(h.fault)
	for range 2 + h.r.IntN(4) {
		h.members = append(h.members, h.member())
	}
	return h
}

// entity is the record of an entity of the chain.
func (h *history) entity(i int) admin.Entity {
	e := admin.Entity{ID: h.entities[i]}
	if i+1 < len(h.entities) {
		e.ParentID, e.Cascade = h.entities[i+1], true
	}
	return e
}

// member starts a limiter.
func (h *history) member() *member {
	m := &member{}
	if h.mode.skew > 0 {
		m.skew = time.Duration(h.r.Int64N(2*h.mode.skew+1)-h.mode.skew) * time.Millisecond
	}
	client := h.db.Client(func(o *dynamodb.Options) { o.HTTPClient = mortal{h.db, m} })
	repo, err := dynalimit.NewRepository(client, table, &dynalimit.RepositoryOptions{
		Now: func() time.Time {
			h.watch(m)
			return time.Now().Add(m.skew)
		},
		ConfigTTL: configTTL, Principal: "tool@example.com",
	})
	require.NoError(h.t, err)
	m.repo = repo
	m.limiter, err = dynalimit.New(repo, &dynalimit.Options{Cascade: h.cascade(h.r), Prefetch: h.horizon})
	require.NoError(h.t, err)
	lanes := h.lanes(m)
	if h.mode.Store != nil {
		lanes.Store = h.mode.Store(lanes.Store)
	}
	if h.mode.Overstay > 0 {
		lanes.Horizon = func(string) time.Duration { return time.Duration(h.mode.Overstay) * h.horizon }
	}
	h.oracle.hear(m.limiter, h.inside)
	return m
}

// lanes are a limiter's.
func (h *history) lanes(m *member) *lane.Registry { return h.inside.Lanes(m.limiter) }

// cascade is how a limiter, or a call of its, charges several levels.
func (h *history) cascade(r *rand.Rand) dynalimit.CascadeMode {
	if h.together && r.IntN(2) == 0 {
		return dynalimit.CascadeTransaction
	}
	return dynalimit.CascadeParallel
}

// limits makes a configuration.
func (h *history) limits(r *rand.Rand) []dynalimit.Limit {
	var limits []dynalimit.Limit
	for _, name := range limitNames {
		if r.Float64() < .6 {
			limits = append(limits, newLimit(r, name))
		}
	}
	if limits == nil {
		limits = append(limits, newLimit(r, limitNames[r.IntN(len(limitNames))]))
	}
	return limits
}

func newLimit(r *rand.Rand, name string) dynalimit.Limit {
	p := parameters[r.IntN(len(parameters))]
	return dynalimit.Limit{Name: name, Capacity: p[0], Burst: p[0], RefillAmount: p[1], RefillPeriod: time.Duration(p[2]) * time.Second}
}

// published notes the configuration that every entity now has.
func (h *history) published(ctx context.Context) {
	for _, entity := range h.entities {
		fingerprint, limits, err := h.inside.Config(ctx, h.operator, entity, resource)
		require.NoError(h.t, err)
		h.oracle.configured(entity, fingerprint, time.Now().UnixMilli())
		h.config[entity] = limits
	}
}

// run plays the history and returns the judge of it.
func (h *history) run(workers, steps int) *judge {
	var group sync.WaitGroup
	luck := make([]*rand.Rand, workers) // before any runs, for a crash draws from h.r too
	for i := range luck {
		luck[i] = rand.New(rand.NewPCG(h.r.Uint64(), 2))
	}
	for _, r := range luck {
		group.Go(func() {
			for range steps / workers {
				h.step(r)
			}
		})
	}
	group.Wait()
	h.rest()
	j := newJudge(h.oracle, h.bounds())
	if len(j.judge()) == 0 {
		j.ledger(h)
	}
	return j
}

// rules are what the mode may add to the bounds.
func (h *history) bounds() bounds {
	rules := bounds{skew: h.mode.skew, exact: h.mode.skew == 0 && h.mode.latency == 0 && !h.mode.faults}
	rules.horizon = h.horizon.Milliseconds()
	rules.lateDecision = 20 * h.mode.latency
	if h.mode.faults {
		rules.lateDecision = 60_000
	}
	if h.mode.skew == 0 && !h.mode.overrides {
		rules.configWithin = 2*configTTL.Milliseconds() + 60_000
		if rules.exact {
			rules.configWithin = 2 * configTTL.Milliseconds()
		}
	}
	return rules
}

// rest ends the faults, lets late requests land and waits for everything.
func (h *history) rest() {
	h.settled.Store(true)
	h.mu.Lock()
	late := h.late
	h.late = nil
	h.mu.Unlock()
	for _, c := range late {
		close(c)
	}
	h.db.Wait()
	for _, m := range append(h.members, h.retired...) {
		if h.closed {
			h.end(m)
		}
		require.NoError(h.t, h.lanes(m).Drain(h.t.Context()))
	}
	elapse(time.Minute) // reads whose callers have gone
}

func (h *history) close() {
	h.stop()
	for _, m := range append(h.members, h.retired...) {
		h.end(m)
	}
	elapse(time.Minute) // reads of processes that died, which Close did not wait for
	h.db.Close()
}

// end closes a limiter. After faults it may have lost what its buckets were to be told.
func (h *history) end(m *member) {
	if err := m.limiter.Close(h.t.Context()); !h.mode.faults || !errors.Is(err, dynalimit.ErrUnconfirmed) {
		require.NoError(h.t, err)
	}
}

// mostLooks is how often a limiter looks at its clock in a minute, at most; one in
// order does so about a thousand times in a whole history.
const mostLooks = 5000

// watch ends a history in which a limiter spins.
func (h *history) watch(m *member) {
	if minute := time.Now().Unix() / 60; m.minute.Swap(minute) != minute {
		m.looks.Store(0)
	}
	most := int64(mostLooks)
	if h.mode.ahead {
		most *= 20
	}
	if m.looks.Add(1) == most && !m.dead.Load() {
		h.stop()
		go h.unexpected(fmt.Errorf("a limiter spins: it looked at its clock %d times in a minute", most))
	}
}

// unexpected notes an error that no law allows.
func (h *history) unexpected(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}
