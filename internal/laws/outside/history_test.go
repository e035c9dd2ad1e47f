package outside

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/laws"
)

// outage says what does not answer for a while.
type outage string

const (
	ofTable  outage = "table"
	ofEntity outage = "entity" // one partition: an entity's bucket and configuration
	ofReads  outage = "reads"  // of the configuration, throttled or silent
)

// world is what a history has.
type world struct {
	outage  outage
	policy  dynalimit.UnavailablePolicy
	latency time.Duration
	// faults are single requests that go wrong.
	faults bool
	// behind is how far clocks are behind, at most; steps lets them step.
	behind time.Duration
	steps  bool
	// changes are of limits, plans, parents and policies.
	changes, together, waits, shared, cancels bool
	// overrides are limits of a call of its own; byHand lets the operator refill buckets,
	// and block entities for a while.
	overrides, byHand bool
	maxBuckets        int
	prefetch          time.Duration
	// closes lets processes end and others begin; share is each one's part under Local.
	closes bool
	share  float64
	// crowd is how many callers may come at once: one or a few, or far more than there is
	// room for.
	crowd int
}

func worldOf(seed uint64) world {
	r := rand.New(rand.NewPCG(seed, 1))
	maybe := func(p float64) bool { return r.Float64() < p }
	w := world{
		policy: []dynalimit.UnavailablePolicy{dynalimit.Refuse, dynalimit.Allow, dynalimit.Local}[r.IntN(3)], faults: maybe(.2),
		changes: maybe(.4), together: maybe(.4), waits: maybe(.4), shared: maybe(.3), cancels: maybe(.3),
	}
	if maybe(.6) {
		w.outage = []outage{ofTable, ofEntity, ofReads}[r.IntN(3)]
	}
	if maybe(.5) {
		w.latency = 40 * time.Millisecond
	}
	if maybe(.3) {
		w.behind, w.steps = 5*time.Minute, maybe(.5)
	}
	if maybe(.3) {
		w.maxBuckets = 2
	}
	if maybe(.2) {
		w.prefetch = time.Duration(250+r.IntN(2000)) * time.Millisecond
	}
	w.closes, w.share = maybe(.3), 1
	if maybe(.5) {
		w.share = []float64{.5, .1}[r.IntN(2)]
	}
	if w.crowd = 4; maybe(.1) {
		w.crowd = 200
	}
	w.overrides, w.byHand = maybe(.2), maybe(.2)
	return w
}

// history is one generated run.
type history struct {
	world
	t        *testing.T
	db       *ddbmem.DB
	operator *dynalimit.Repository
	entities []string
	// records are those of entities, and own says who has limits of their own, when it began.
	records map[string]admin.Entity
	own     map[string]bool
	oracle  *oracle

	mu              sync.Mutex // guards what follows
	members, closed []*member
	luck            *rand.Rand           // which requests fail
	sick            string               // the entity whose partition does not answer
	silent          time.Time            // until when
	hit             map[string]time.Time // when an entity last got no answer because of that
	calm            bool
	leases          []*held
}

// member is a process: a limiter with a clock. Several may share a repository.
type member struct {
	limiter *dynalimit.RateLimiter
	repo    *dynalimit.Repository
	mu      sync.Mutex
	behind  time.Duration
	looks   laws.Looks
}

// mostLooks is how often a process looks at its clock in a minute, at most.
const mostLooks = 50_000

// now is the member's clock; it ends the history of one that spins.
func (m *member) now(h *history) time.Time {
	if m.looks.Add() > mostLooks {
		panic(fmt.Sprintf("a limiter spins: it looked at its clock %d times in a minute, in %+v", mostLooks, h.world))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(-m.behind)
}

func newHistory(t *testing.T, seed uint64, w world) (*history, *rand.Rand) {
	r := rand.New(rand.NewPCG(seed, 2))
	h := &history{world: w, t: t, db: ddbmem.New(), luck: rand.New(rand.NewPCG(seed, 3)), oracle: newOracle(w), hit: map[string]time.Time{}, records: map[string]admin.Entity{}, own: map[string]bool{}}
	h.db.OnWrite(h.oracle.committed)
	h.operator = h.repository(time.Now)
	ctx := t.Context()
	require.NoError(t, h.operator.CreateTable(ctx))
	h.entities = laws.Entities(r)
	links := rand.New(rand.NewPCG(seed, 7)) // of its own, so that the others stay as they were
	for i := len(h.entities) - 1; i >= 0; i-- {
		record := laws.Link(h.entities, i, links)
		require.NoError(t, admin.New(h.operator).Entities.Create(ctx, record))
		h.records[record.ID] = record
		if h.own[record.ID] = links.IntN(2) == 0; h.own[record.ID] {
			require.NoError(t, h.setLimits(ctx, admin.Scope{Entity: record.ID}, h.limits(links)))
		}
	}
	require.NoError(t, admin.New(h.operator).Limits.Set(ctx, admin.Scope{Everyone: true}, h.limits(r)))
	h.db.SetFaults(h.fault)
	var repo *dynalimit.Repository
	for range 1 + r.IntN(4) {
		m := h.process(r, repo)
		h.members = append(h.members, m)
		if w.shared {
			repo = m.repo
		}
	}
	return h, r
}

// process begins a process, on a repository or, if that is nil, one of its own.
func (h *history) process(r *rand.Rand, repo *dynalimit.Repository) *member {
	m := &member{repo: repo}
	if h.behind > 0 {
		m.behind = time.Duration(r.Int64N(int64(h.behind)))
	}
	if repo == nil {
		m.repo = h.repository(func() time.Time { return m.now(h) })
	}
	o := &dynalimit.Options{MaxBuckets: h.maxBuckets, OnUnavailable: h.policy, Prefetch: h.prefetch, LocalShare: h.share}
	if h.together && r.IntN(2) == 0 {
		o.ChargeMode = dynalimit.ChargeTransaction
	}
	var err error
	m.limiter, err = dynalimit.New(m.repo, o)
	require.NoError(h.t, err)
	return m
}

func (h *history) repository(now func() time.Time) *dynalimit.Repository {
	repo, err := dynalimit.NewRepository(h.db.Client(), "limits", &dynalimit.RepositoryOptions{Now: now, AllowAnonymous: true})
	require.NoError(h.t, err)
	return repo
}

var parameters = [][3]int64{{100, 100, 60}, {10, 60, 60}, {50, 50, 86400}, {7, 3, 11}, {100, 1, 3600}}

// limits are of rpm, and sometimes of tpm.
func (h *history) limits(r *rand.Rand) []dynalimit.Limit {
	return h.limitsOf(r, []string{"rpm", "tpm"}[:1+r.IntN(2)]...)
}

// otherLimits are limits, now and then without rpm: who had that loses it.
func (h *history) otherLimits(r *rand.Rand) []dynalimit.Limit {
	if r.IntN(4) == 0 {
		return h.limitsOf(r, "tpm")
	}
	return h.limits(r)
}

func (h *history) limitsOf(r *rand.Rand, names ...string) []dynalimit.Limit {
	var limits []dynalimit.Limit
	for _, name := range names {
		l := laws.TokenBucket(name, parameters[r.IntN(len(parameters))])
		limits = append(limits, l)
		h.oracle.mayHave(l)
	}
	return limits
}

// play plays a history and returns what broke a law.
func play(t *testing.T, seed uint64, w world) (violations []string, tally map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		h, r := newHistory(t, seed, w)
		var workers sync.WaitGroup
		n := 1 + r.IntN(4)
		for range n {
			own := rand.New(rand.NewPCG(r.Uint64(), 4))
			workers.Go(func() {
				for range 80 / n {
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

// rest ends what goes wrong, waits until all is written and looks at the counters.
func (h *history) rest() {
	h.mu.Lock()
	h.calm = true
	h.mu.Unlock()
	h.db.Wait()
	laws.Elapse(3 * time.Minute)
	for _, m := range h.members {
		require.NoError(h.t, m.limiter.Close(context.WithoutCancel(h.t.Context())))
	}
	for _, m := range append(h.members, h.closed...) {
		h.oracle.uncertain(m.limiter.Health())
	}
	laws.Elapse(time.Minute)
	h.db.Wait()
	h.oracle.ledger(h.leases)
	h.oracle.once(h.leases)
}

// TestFromOutside plays histories.
func TestFromOutside(t *testing.T) {
	first, end := laws.Seeds(t, 200, 1)
	sum := map[string]int{}
	for seed := first; seed < end; seed++ {
		w := worldOf(seed)
		violations, tally := play(t, seed, w)
		if len(violations) > 0 {
			t.Errorf("DYNALIMIT_SEED=%d, %+v: %d violations, the first: %s", seed, w, len(violations), violations[0])
		}
		for what, n := range tally {
			sum[what] += n
		}
	}
	t.Logf("%d histories: %v", end-first, sum)
	if end-first > 50 { // a history in which nothing happens proves nothing
		for _, what := range []string{"admitted", "denied", "degraded", "shared out", "given back", "ledgers", "closed", "by hand", "blocked"} {
			require.Positive(t, sum[what], what)
		}
	}
}
