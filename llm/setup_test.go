package llm_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/testworld"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	org  = "550e8400-e29b-41d4-a716-446655440000"
	app  = "chat"
	user = "user-1"

	premiumModel  = "anthropic.claude-3-5-sonnet-20241022-v2:0"
	standardModel = "anthropic.claude-3-5-haiku-20241022-v1:0"

	// A call of 2,000 in and 4,000 out costs 66,000 µ$ of premium; one of 1,500
	// and 800 costs 16,500.
	estimateMicros = 66_000
	callMicros     = 16_500
)

var (
	noon     = time.Date(2099, 1, 23, 12, 0, 0, 0, time.UTC)
	estimate = llm.Estimate{InputTokens: 2_000, MaxOutputTokens: 4_000}
	used     = llm.Usage{Tokens: prices.Tokens{Input: 1_500, Output: 800}}
)

// clock is a settable time.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.ns.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// world is an engine with tables, and one process on it.
type world struct {
	t      testing.TB
	db     *ddbmem.DB // nil on a third-party engine
	client *dynamodb.Client
	clock  *clock
	suffix string

	limiter *dynalimit.RateLimiter
	budget  *fakeBudget
	keeper  *fakeKeeper

	mu      sync.Mutex
	guards  []*llm.Guard
	refused []llm.Refused // records that no keeper has
}

// with says what a guard works with.
type with struct{ limiter, keeper bool }

var both = with{true, true}

// engines runs a test on ddbmem, and on the endpoint if there is one.
func engines(t *testing.T, test func(t *testing.T, w *world)) {
	testworld.RunOnEngines(t, func(t *testing.T, db *ddbmem.DB, client testworld.NewClient) {
		if db != nil {
			test(t, memWorld(t))
			return
		}
		test(t, newWorld(t, nil, &clock{}, client()))
	})
}

// virtual runs a test on ddbmem in a bubble, where retries and latencies take no
// time. Its clock stands still all the same, so that no bucket refills
// meanwhile.
func virtual(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memWorld(t)) })
}

func memWorld(t *testing.T) *world {
	c := &clock{}
	db := testworld.NewMem(t, ddbmem.WithClock(c.now))
	return newWorld(t, db, c, db.Client())
}

var worlds atomic.Int64

func newWorld(t testing.TB, db *ddbmem.DB, c *clock, client *dynamodb.Client) *world {
	c.set(noon)
	w := &world{t: t, db: db, client: client, clock: c, suffix: fmt.Sprintf("%d-%d", os.Getpid(), worlds.Add(1))}
	ctx := t.Context()
	repo := w.repository()
	require.NoError(t, repo.CreateTable(ctx))
	w.limits(dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 100_000))
	var err error
	w.limiter, err = dynalimit.New(repo, nil)
	require.NoError(t, err)
	w.budget = newFakeBudget(c.now)
	w.keeper = w.newKeeper()
	w.org(1_000_000, 500_000)
	t.Cleanup(func() {
		if w.db == nil {
			name := "limits-" + w.suffix
			_, err := w.client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
			assert.NoError(t, err)
		}
	})
	return w
}

func (w *world) repository() *dynalimit.Repository {
	repo, err := dynalimit.NewRepository(w.client, "limits-"+w.suffix, &dynalimit.RepositoryOptions{Now: w.clock.now, Principal: "ops@example.com"})
	require.NoError(w.t, err)
	return repo
}

func (w *world) limits(limits ...dynalimit.Limit) {
	require.NoError(w.t, admin.New(w.repository()).Limits.Set(w.t.Context(), admin.Scope{Everyone: true}, limits))
}

func (w *world) newKeeper() *fakeKeeper { return &fakeKeeper{fakeBudget: w.budget} }

// org gives the labels quotas in µ$.
func (w *world) org(premium, standard int64) {
	w.budget.setOrg(org, fakeOrg{ordering: []string{"premium", "standard"}, quotas: map[string]int64{"premium": premium, "standard": standard}})
}

// otherProcess is a guard of both that shares nothing but the tables.
func (w *world) otherProcess() *llm.Guard {
	w.t.Helper()
	limiter, err := dynalimit.New(w.repository(), nil)
	require.NoError(w.t, err)
	keeper := w.newKeeper()
	return w.guard(both, func(o *llm.Options) { o.Limiter, o.Keeper = limiter, keeper })
}

func (w *world) guard(parts with, adapt ...func(*llm.Options)) *llm.Guard {
	w.t.Helper()
	o := llm.Options{Now: w.clock.now, OnRefused: func(r llm.Refused) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, r)
	}}
	if parts.limiter {
		o.Limiter = w.limiter
	}
	if parts.keeper {
		o.Keeper = w.keeper
	}
	for _, f := range adapt {
		f(&o)
	}
	g, err := llm.New(&o)
	require.NoError(w.t, err)
	w.guards = append(w.guards, g)
	w.t.Cleanup(func() { assert.NoError(w.t, g.Close(context.Background())) })
	return g
}

// flush waits until the keepers and the buckets have what was settled.
func (w *world) flush() {
	w.t.Helper()
	for _, g := range w.guards {
		require.NoError(w.t, g.Close(w.t.Context()))
	}
}

func request() llm.Request {
	return llm.Request{Entity: user, Resource: "chat", Org: org, App: app, Estimate: estimate}
}

// recovers ends every fault and waits until that is known, and nothing is owed to
// the limiter's buckets; in a bubble.
func (w *world) recovers() {
	w.t.Helper()
	w.db.SetFaults(nil)
	w.budget.away.Store(false)
	<-time.After(12 * time.Second) // probes come at most 10 s apart
	for range 60 {
		if h := w.limiter.Health(); !h.Open && h.SilentBuckets == 0 && h.WaitingBuckets == 0 {
			return
		}
		<-time.After(time.Second)
	}
	require.Fail(w.t, "the store does not recover", "%+v", w.limiter.Health())
}

// left is what the buckets hold.
func (w *world) left() (rpm, tpm int64) {
	w.t.Helper()
	report, err := w.limiter.Check(w.t.Context(), user, "chat", nil)
	require.NoError(w.t, err)
	for _, s := range report.Statuses {
		switch s.Limit.Name {
		case "rpm":
			rpm = s.Remaining
		case "tpm":
			tpm = s.Remaining
		}
	}
	return rpm, tpm
}

// spent is what the budget counts under a label.
func (w *world) spent(label string) total { return w.spentOf(org, label) }

func (w *world) spentOf(org, label string) total {
	w.t.Helper()
	w.flush()
	w.budget.mu.Lock()
	defer w.budget.mu.Unlock()
	return w.budget.total(org, label)
}

// requireNothing asserts that no bucket and no counter has anything taken.
func (w *world) requireNothing() {
	w.t.Helper()
	w.flush()
	rpm, tpm := w.left()
	require.Equal(w.t, []int64{60, 100_000}, []int64{rpm, tpm}, "the buckets")
	w.requireNoMoney()
}

func (w *world) requireNoMoney() {
	w.t.Helper()
	for _, label := range []string{"premium", "standard"} {
		l := w.spent(label)
		require.Equal(w.t, []int64{0, 0}, []int64{l.CostMicros, l.Requests}, label)
	}
}

// requireSettled asserts that one call of used was counted in both.
func (w *world) requireSettled(label string, micros int64) {
	w.t.Helper()
	w.flush()
	rpm, tpm := w.left()
	assert.Equal(w.t, []int64{59, 100_000 - 2_300}, []int64{rpm, tpm}, "the buckets")
	l := w.spent(label)
	assert.Equal(w.t, []int64{micros, 1}, []int64{l.CostMicros, l.Requests}, label)
}

func (w *world) start(g *llm.Guard, r llm.Request) *llm.Call {
	w.t.Helper()
	c, err := g.Start(w.t.Context(), r)
	require.NoError(w.t, err)
	return c
}

// settle settles at used.
func (w *world) settle(c *llm.Call) {
	w.t.Helper()
	require.NoError(w.t, c.Settle(w.t.Context(), used))
}

const other = "550e8400-e29b-41d4-a716-446655440009"

// otherOrg has labels of its own.
func (w *world) otherOrg(ordering ...string) {
	w.budget.setOrg(other, fakeOrg{ordering: ordering, quotas: map[string]int64{"premium": 1_000_000, "standard": 500_000}})
}

// endsStart is a limiter whose caller goes away while it acquires.
type endsStart struct {
	llm.Limiter
	cancel context.CancelFunc
}

func (l endsStart) Acquire(ctx context.Context, entity, resource string, amounts dynalimit.Amounts, opts ...dynalimit.AcquireOption) (*dynalimit.Lease, error) {
	lease, err := l.Limiter.Acquire(ctx, entity, resource, amounts, opts...)
	l.cancel()
	return lease, err
}

// warm makes one call, so that configurations are known and buckets exist.
func (w *world) warm(g *llm.Guard) {
	w.t.Helper()
	require.NoError(w.t, w.start(g, request()).Rollback(w.t.Context()))
}

// fakeBudget is the budget of all keepers of a world: quotas of labels, and the records counted.
type fakeBudget struct {
	now  func() time.Time
	list prices.List
	away atomic.Bool // no keeper reaches its store

	mu      sync.Mutex
	orgs    map[string]fakeOrg
	records map[string]prices.Usage // counted, by request id
	of      map[string]string       // organisations of records
}

type fakeOrg struct {
	ordering []string
	quotas   map[string]int64 // µ$
	forced   string
}

func newFakeBudget(now func() time.Time) *fakeBudget {
	return &fakeBudget{now: now, list: prices.CatalogList(), orgs: map[string]fakeOrg{}, records: map[string]prices.Usage{}, of: map[string]string{}}
}

func (b *fakeBudget) setOrg(id string, o fakeOrg) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orgs[id] = o
}

// total is what is counted under a label.
type total struct {
	prices.Tokens
	CostMicros, Requests int64
}

// total sums the records of a label. The lock must be held.
func (b *fakeBudget) total(org, label string) (t total) {
	var picos int64
	for id, u := range b.records {
		if b.of[id] != org || u.Label != label {
			continue
		}
		t.Requests++
		p, _ := b.list.Price(cmp.Or(u.Model, fakeModels[label]), u.Time)
		rates := p.Assumed()
		for _, c := range prices.Classes() {
			*c.Count(&t.Tokens) += *c.Count(&u.Tokens)
			picos += *c.Count(&u.Tokens) * max(*c.Rate(&rates), 0)
		}
	}
	t.CostMicros = (picos + 500_000) / 1_000_000
	return t
}

// fakeKeeper is a keeper of one process.
type fakeKeeper struct {
	*fakeBudget
	closed atomic.Bool
}

var (
	errKeeperClosed = errors.New("keeper: closed")
	fakeModels      = map[string]string{"premium": premiumModel, "standard": standardModel}
)

func (k *fakeKeeper) Close(context.Context) error {
	k.closed.Store(true)
	return nil
}

func (k *fakeKeeper) usable(id string) error {
	switch {
	case k.closed.Load():
		return errKeeperClosed
	case len(id) != len(org):
		return &fault.ValidationError{Package: "keeper", Field: "org_id", Reason: "is no UUID"}
	case k.away.Load():
		return &fault.UnavailableError{Package: "keeper", Err: errors.New("no answer")}
	}
	return nil
}

func unknownLabel(label string) error {
	return &fault.ValidationError{Package: "keeper", Field: "model_label", Code: fault.InvalidModelLabel, Reason: label + " is not in the ordering"}
}

func (k *fakeKeeper) ChooseLabel(_ context.Context, org, _, label string) (chosen, model string, err error) {
	if err := k.usable(org); err != nil {
		return "", "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.orgs[org]
	if label != "" && !slices.Contains(o.ordering, label) {
		return "", "", unknownLabel(label)
	}
	denial := &prices.QuotaExceededError{DecidedAt: k.now(), RetryAt: k.now().Truncate(24 * time.Hour).Add(24 * time.Hour)}
	for _, l := range o.ordering {
		room := k.total(org, l).CostMicros < o.quotas[l]
		if (room || l == o.forced) && (label == "" || label == l) {
			return l, fakeModels[l], nil
		}
		denial.Labels = append(denial.Labels, prices.LabelStatus{Label: l, Model: fakeModels[l]})
	}
	return "", "", denial
}

func (k *fakeKeeper) CountCalls(_ context.Context, org, _ string, calls []prices.Usage) ([]error, error) {
	if err := k.usable(org); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	errs := make([]error, len(calls))
	for i, u := range calls {
		errs[i] = k.count(org, u)
	}
	return errs, nil
}

// count counts a record once. The lock must be held.
func (k *fakeKeeper) count(org string, u prices.Usage) error {
	switch {
	case u.Validate() != nil:
		return u.Validate()
	case u.Time.Before(k.now().Add(-24 * time.Hour)):
		return &fault.ValidationError{Package: "keeper", Field: "timestamp", Reason: "is too old"}
	}
	k.records[u.RequestID], k.of[u.RequestID] = u, org
	return nil
}
