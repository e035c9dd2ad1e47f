package laws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

const (
	table     = "limits"
	configTTL = 60 * time.Second
)

// parameters are the possible parameters of limits: burst, amount, seconds.
var parameters = [][3]int64{{100, 100, 60}, {10, 60, 60}, {5000, 1000, 60}, {100, 10000, 60}, {50, 50, 86400}}

// history is one generated run of several limiters on one table.
type history struct {
	mode     Mode
	inside   Inside
	t        *testing.T
	db       *ddbmem.DB
	oracle   *oracle
	weather  *weather
	operator *dynalimit.Repository
	entities []string // the leaf first
	// ctx is the context of calls. stop ends it when a limiter spins.
	ctx  context.Context
	stop context.CancelFunc

	r     *rand.Rand // for the history's own goroutine
	links *rand.Rand // decides how parents count, under mu
	// raises decides about raises of limits, under mu.
	raises *rand.Rand
	// grouped means that calls charge a group of resources too.
	grouped bool
	// teams are parents that calls give sometimes. It may be nil.
	teams []string
	// quotas decides which limit is sometimes a quota. It may be nil.
	quotas *quotas
	// waits lets calls wait; together lets them charge in transactions.
	waits, together bool
	// horizon is the prefetch horizon of limiters. closed means that they were closed at the end of the
	// history.
	horizon time.Duration
	closed  bool

	mu      bubbleLock // guards the fields below
	members []*member
	leases  []*grant
	retired []*member
	config  map[string][]dynalimit.Limit // by bucket, as in force
	told    map[string]int64             // amounts granted to callers, by entity and limit
	raised  int                          // the number of raises
	over    bool                         // the table is closed
	errs    []error
}

// member is a limiter with its own clock and caches.
type member struct {
	limiter *dynalimit.RateLimiter
	repo    *dynalimit.Repository
	skew    time.Duration
	dead    atomic.Bool
	looks   Looks
}

// grant is a lease and its owner.
type grant struct {
	*dynalimit.Lease
	owner *member
	stake *stake
	// entity is the charged entity. allows means that the call had a policy of Allow, so any configuration
	// may have admitted it.
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

// Do sends a request to the database. Once its limiter is marked dead, it returns ECONNRESET and sends nothing.
func (m mortal) Do(r *http.Request) (*http.Response, error) {
	if m.m.dead.Load() {
		return nil, syscall.ECONNRESET
	}
	return m.db.Do(r)
}

// bubbleLock is a lock with waits during which virtual time passes, unlike a sync.Mutex: an operator that
// holds it may pause before a retry.
type bubbleLock chan struct{}

// Lock takes the lock.
func (l bubbleLock) Lock() { l <- struct{}{} }

// Unlock releases the lock.
func (l bubbleLock) Unlock() { <-l }

// newHistory makes the table with its entities, their first limits and two to five limiters. The seed and the
// mode decide everything. An error fails the test, and faults begin once the table is configured.
func newHistory(t *testing.T, seed uint64, mode Mode, inside Inside) *history {
	h := &history{
		mode: mode, inside: inside, t: t, db: ddbmem.New(), oracle: newOracle(), r: rand.New(rand.NewPCG(seed, 1)), config: map[string][]dynalimit.Limit{},
		told: map[string]int64{}, mu: make(bubbleLock, 1),
	}
	h.weather = &weather{mode: mode, oracle: h.oracle, luck: rand.New(rand.NewPCG(seed, 3)), throttled: map[string]*partition{}}
	h.ctx, h.stop = context.WithCancel(t.Context())
	h.waits = h.r.IntN(2) == 0
	h.together = h.r.IntN(3) > 0
	if mode.ahead {
		h.horizon = time.Duration(250+h.r.IntN(2000)) * time.Millisecond
		h.closed = h.r.IntN(2) == 0
	}
	h.db.OnWrite(h.oracle.recordCommit)
	var err error
	h.operator, err = dynalimit.NewRepository(h.db.Client(), table, &dynalimit.RepositoryOptions{Now: time.Now, Principal: "ops@example.com"})
	require.NoError(t, err)
	ctx := Quietly(t.Context())
	h.quotas = newQuotas(seed)
	require.NoError(t, h.operator.CreateTable(ctx))
	h.entities, h.links, h.raises = Entities(h.r), rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8))
	for i := len(h.entities) - 1; i >= 0; i-- {
		require.NoError(t, admin.New(h.operator).Entities.Create(ctx, Link(h.entities, i, h.links)))
	}
	require.NoError(t, admin.New(h.operator).Limits.Set(ctx, admin.Scope{Everyone: true}, h.randomLimits(h.r)))
	luck := rand.New(rand.NewPCG(seed, 6)) // separate, so that the other draws stay as they were
	if h.grouped = luck.IntN(3) == 0; h.grouped {
		for range 3 {
			h.changeGroup(ctx, luck)
		}
	}
	if luck.IntN(3) == 0 { // every entity is blocked, except the callers of the resource
		limits := admin.New(h.operator).Limits
		require.NoError(t, limits.SetAdmit(ctx, admin.Scope{Everyone: true, Resource: resource}, true))
		require.NoError(t, limits.SetBlockedExcept(ctx, admin.Scope{Everyone: true}))
	}
	h.enrolTeams(ctx, rand.New(rand.NewPCG(seed, 8)))
	h.publishConfig(ctx)
	h.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		h.oracle.recordArrival(q)
		return h.weather.randomFault(q)
	})
	for range 2 + h.r.IntN(4) {
		h.members = append(h.members, h.newMember())
	}
	return h
}

// newMember makes a limiter with its own clock and with a client that fails once the limiter is killed. The
// oracle observes the limiter's requests from then on. It does not add it to h.members; an error fails the
// test.
func (h *history) newMember() *member {
	m := &member{}
	if h.mode.skew > 0 {
		m.skew = time.Duration(h.r.Int64N(2*h.mode.skew+1)-h.mode.skew) * time.Millisecond
	}
	client := h.db.Client(func(o *dynamodb.Options) { o.HTTPClient = mortal{h.db, m} })
	repo, err := dynalimit.NewRepository(testworld.ClientOf[dynalimit.DynamoDB](client), table, &dynalimit.RepositoryOptions{
		Now: func() time.Time {
			h.countLook(m)
			return time.Now().Add(m.skew)
		},
		ConfigTTL: configTTL, Principal: "tool@example.com",
	})
	require.NoError(h.t, err)
	m.repo = repo
	m.limiter, err = dynalimit.New(repo, &dynalimit.Options{ChargeMode: h.randomChargeMode(h.r), Prefetch: h.horizon})
	require.NoError(h.t, err)
	lanes := h.lanesOf(m)
	if h.mode.Store != nil {
		lanes.Store = h.mode.Store(lanes.Store)
	}
	if h.mode.Overstay > 0 {
		lanes.Horizon = func(string) time.Duration { return time.Duration(h.mode.Overstay) * h.horizon }
	}
	h.oracle.listenTo(h.inside.Desk(m.limiter))
	return m
}

// lanesOf returns the registry of a limiter's lanes.
func (h *history) lanesOf(m *member) *lane.Registry { return h.inside.Desk(m.limiter).Lanes }

// randomChargeMode draws the charge mode of a limiter or a call: in parallel or, in some histories, in one
// transaction.
func (h *history) randomChargeMode(r *rand.Rand) dynalimit.ChargeMode {
	if h.together && r.IntN(2) == 0 {
		return dynalimit.ChargeTransaction
	}
	return dynalimit.ChargeParallel
}

// randomLimits draws limits for one source, at least one: each name with a probability of 0.6.
func (h *history) randomLimits(r *rand.Rand) []dynalimit.Limit {
	var limits []dynalimit.Limit
	for _, name := range limitNames {
		if r.Float64() < .6 {
			limits = append(limits, h.randomLimit(r, name))
		}
	}
	if limits == nil {
		limits = append(limits, h.randomLimit(r, limitNames[r.IntN(len(limitNames))]))
	}
	return limits
}

// randomLimit draws the parameters of the named limit: a random quota if the history's quotas say so, else one
// of the token buckets in parameters.
func (h *history) randomLimit(r *rand.Rand, name string) dynalimit.Limit {
	p := parameters[r.IntN(len(parameters))]
	if h.quotas.isQuotaNext(r, name) {
		return h.quotas.randomQuota(r, name, p[0])
	}
	return TokenBucket(name, p)
}

// publishConfig reads the configuration of each entity on the resource and the group, and records it in the
// oracle as in force from now on. It also sets h.config, from which later calls are drawn. An error fails the
// test; h.mu must be held, except at the start.
func (h *history) publishConfig(ctx context.Context) {
	for _, entity := range h.chargedEntities() {
		for _, of := range []string{resource, group} {
			found, limits, err := h.inside.Config(ctx, h.operator, config.Key{Entity: entity, Resource: of, Group: of == group}, true)
			require.NoError(h.t, err)
			fingerprint := ""
			if found.Limits != nil {
				fingerprint = string(found.Limits.Fingerprint)
			}
			h.oracle.recordConfig(bucketOf(entity, of), fingerprint, time.Now().UnixMilli())
			h.config[bucketOf(entity, of)] = limits
		}
	}
}

// bounds returns the tolerances of the judge that the mode allows: of clocks, latency, faults and overrides.
// They are exact without any of the first three.
func (h *history) bounds() bounds {
	rules := bounds{skew: h.mode.skew, exact: h.mode.skew == 0 && h.mode.latency == 0 && !h.mode.faults}
	rules.horizon = h.horizon.Milliseconds()
	rules.lateDecision = 20 * h.mode.latency
	rules.unread = 20_000 + 5*configTTL.Milliseconds()/4
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

// awaitRest ends the faults, lets late requests land, closes the limiters in some histories, and waits until no
// write is pending. A failure fails the test.
func (h *history) awaitRest() {
	h.weather.endFaults()
	h.db.Wait()
	for _, m := range append(h.members, h.retired...) {
		if h.closed {
			h.closeMember(m)
		}
		require.NoError(h.t, h.lanesOf(m).Drain(h.t.Context()))
	}
	Elapse(time.Minute) // for reads with callers that have gone
}

// endHistory ends the contexts of calls, closes every limiter, also of dead processes, waits for their last
// reads, and closes the table. An error of a Close fails the test, see closeMember.
func (h *history) endHistory() {
	h.stop()
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	for _, m := range append(h.members, h.retired...) {
		h.closeMember(m)
	}
	Elapse(time.Minute) // reads of dead processes, for which Close did not wait
	h.db.Close()
}

// closeMember closes a limiter and fails the test on an error. In a mode with faults it ignores ErrUnconfirmed,
// because pending updates may be lost.
func (h *history) closeMember(m *member) {
	if err := m.limiter.Close(h.t.Context()); !h.mode.faults || !errors.Is(err, dynalimit.ErrUnconfirmed) {
		require.NoError(h.t, err)
	}
}

// mostLooks bounds a limiter's reads of its clock in a minute. A correct one makes about a thousand in a
// whole history.
const mostLooks = 5000

// countLook counts a read of a limiter's clock. A living limiter that reads it too often in a minute spins:
// countLook then records that error and ends the contexts of all calls.
func (h *history) countLook(m *member) {
	most := int64(mostLooks)
	if h.mode.ahead {
		most *= 20
	}
	if m.looks.Add() == most && !m.dead.Load() {
		h.stop()
		go h.recordError(fmt.Errorf("a limiter spins: it looked at its clock %d times in a minute", most))
	}
}

// recordError adds an error that no law allows to h.errs, so that the test fails with it. It takes h.mu.
func (h *history) recordError(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

// randomMember returns a random limiter. It takes h.mu.
func (h *history) randomMember(r *rand.Rand) *member {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members[r.IntN(len(h.members))]
}

// randomAmounts draws the amounts of a call, in whole tokens, for at least one of the entity's limits, up to a
// little more than the burst. It takes h.mu.
func (h *history) randomAmounts(r *rand.Rand, entity string) dynalimit.Amounts {
	h.mu.Lock()
	defer h.mu.Unlock()
	limits, a := h.config[entity], dynalimit.Amounts{}
	for _, l := range limits {
		if r.Float64() < .7 {
			choices := []int64{1, l.Burst / 10, l.Burst / 3, l.Burst, l.Burst + 1}
			a[l.Name] = choices[r.IntN(len(choices)-1+r.IntN(50)/49)]
		}
	}
	if len(a) == 0 {
		a[limits[0].Name] = 1
	}
	return a
}

// recordGrant adds the amounts of a granted lease to h.told, and gives the lease's stake a function that shows
// its holdings. It adds the lease to h.leases, which workers amend, unless its limiter has died. It takes h.mu.
func (h *history) recordGrant(g *grant, amounts dynalimit.Amounts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recordTold(g.Lease, amounts)
	g.stake.held = func() []call.Held { return h.inside.Held(g.Lease) }
	if !g.owner.dead.Load() {
		h.leases = append(h.leases, g)
	}
}

// recordTold adds amounts that a lease charges, at its acquire or later, to h.told, in millitokens by bucket
// and limit. It leaves out levels that the outage policy admitted. checkLedgers compares the sums with the
// debits; h.mu must be held.
func (h *history) recordTold(l *dynalimit.Lease, amounts dynalimit.Amounts) {
	for _, level := range h.inside.Held(l) {
		if level.Degraded {
			continue
		}
		for _, a := range chargedAt(&level, amounts) {
			h.told[bucketOfLane(level.Lane)+"#"+a.Name] += a.Amount
		}
	}
}

// checkError records an unexpected error of a call. Denials, limits out of the configuration, ended contexts,
// faults and dead limiters are expected. It also records a denial that names no limit or no wait.
func (h *history) checkError(m *member, err error) {
	var wrong *dynalimit.ValidationError
	var denied *dynalimit.LimitExceededError
	if errors.As(err, &denied) && (denied.RetryAfter <= 0 || !denied.Primary().Exceeded) {
		h.recordError(fmt.Errorf("L6: a denial for no limit: %w; %+v", err, denied.Statuses))
	}
	switch {
	case errors.Is(err, dynalimit.ErrLimitExceeded), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &wrong): // a limit that this limiter's configuration does not have, or not any more
	case h.mode.faults && (errors.Is(err, dynalimit.ErrUnavailable) || errors.Is(err, dynalimit.ErrContended) || errors.Is(err, dynalimit.ErrUnconfirmed)):
	case m.dead.Load():
	default:
		h.recordError(err)
	}
}
