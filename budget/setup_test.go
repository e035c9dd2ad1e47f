package budget

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgO = "550e8400-e29b-41d4-a716-446655440000"
	appA = "app-production-api"
	appB = "app-batch"

	premiumModel  = "anthropic.claude-3-5-sonnet-20241022-v2:0"
	standardModel = "anthropic.claude-3-5-haiku-20241022-v1:0"
	economyModel  = "anthropic.claude-3-haiku-20240307-v1:0"
	microModel    = "amazon.nova-micro-v1:0"

	tester = "ann@example.com" // makes the changes of tests
)

var fixtureNow = time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)

var fixtureModels = map[string]string{
	"premium": premiumModel, "standard": standardModel, "economy": economyModel, "micro": microModel,
}

func fixtureOrg() Org {
	return Org{
		ID: orgO, Name: "sample", Timezone: "America/New_York", Scope: ScopeApp,
		Ordering: []string{"premium", "standard", "economy"},
		Quotas:   map[string]int64{"premium": 10_000_000, "standard": 5_000_000, "economy": 2_000_000},
		Sticky:   true, Enforcement: Soft,
	}
}

func hardOrg() Org {
	o := fixtureOrg()
	o.Enforcement = Hard
	return o
}

// uuid is the n-th request id.
func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

// call is U(n): 1,500 in and 800 out of premium, 16,500 µ$.
func call(n int) Usage {
	return Usage{
		RequestID: uuid(n), Label: "premium", Model: premiumModel,
		Tokens: Tokens{Input: 1500, Output: 800}, Status: "OK", Time: fixtureNow,
	}
}

// clock is a settable time.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.set(fixtureNow)
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.ns.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// world is two nodes with separate caches on the same tables.
type world struct {
	t      testing.TB
	db     *ddbmem.DB // nil on a third-party engine
	client Client
	clock  *clock
	tables Tables
	a, b   *Keeper
	faulty bool
}

// flaky loses, delays, throttles or refuses one write in eight, and leaves
// keys of one batch in four unprocessed.
func flaky(seed uint64) ddbmem.FaultFunc {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(r *ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		n := rng.IntN(40)
		mu.Unlock()
		transaction := r.Operation == "TransactWriteItems"
		switch {
		case r.Operation == "BatchGetItem" && n < 10:
			return ddbmem.Fault{Unprocessed: 1 + n%3}
		case !transaction && r.Operation != "UpdateItem" && r.Operation != "PutItem":
			return ddbmem.Fault{}
		case n == 0:
			return ddbmem.Fault{Lose: true}
		case n == 1:
			return ddbmem.Fault{Drop: true}
		case n == 2:
			return ddbmem.Fault{Before: 2 * time.Millisecond, After: 2 * time.Millisecond}
		case n == 3:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
		case n == 4 && transaction:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}}}}
		case n == 4:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "TransactionConflictException"}}
		}
		return ddbmem.Fault{}
	}
}

var worlds atomic.Int64

// engines runs a test on ddbmem, on ddbmem with faults, and on the engine at
// DYNALIMIT_TEST_ENDPOINT.
func engines(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	t.Run("ddbmem", func(t *testing.T) { test(t, newWorld(t)) })
	t.Run("faults", func(t *testing.T) {
		w := newWorld(t)
		w.faulty = true
		w.db.SetFaults(flaky(uint64(len(t.Name()))))
		test(t, w)
		w.db.SetFaults(nil)
	})
	endpoint := os.Getenv("DYNALIMIT_TEST_ENDPOINT")
	if endpoint == "" {
		return
	}
	t.Run("endpoint", func(t *testing.T) {
		client := dynamodb.New(dynamodb.Options{
			BaseEndpoint: &endpoint, Region: "us-east-1",
			Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
			HTTPClient:  engineHTTP,
		})
		w := &world{t: t, client: client, clock: newClock()}
		w.start(&Options{})
		test(t, w)
	})
}

func newWorld(t testing.TB, adapt ...func(*Options)) *world {
	w := &world{t: t, clock: newClock()}
	w.db = ddbmem.New(ddbmem.WithClock(w.clock.now))
	changes := watchChanges(w.db)
	t.Cleanup(func() {
		w.db.Close()
		changes.check(t)
	})
	w.client = w.db.Client()
	var opts Options
	for _, f := range adapt {
		f(&opts)
	}
	w.start(&opts)
	return w
}

func (w *world) start(opts *Options) {
	id := worlds.Add(1)
	w.tables = Tables{fmt.Sprintf("control-%d-%d", os.Getpid(), id), fmt.Sprintf("usage-%d-%d", os.Getpid(), id)}
	w.a, w.b = w.keeper(opts), w.keeper(opts)
	require.NoError(w.t, w.a.CreateTables(w.t.Context()))
}

// keeper adds a node.
func (w *world) keeper(opts *Options) *Keeper {
	o := *opts
	o.Now, o.Principal = w.clock.now, cmp.Or(o.Principal, tester)
	// A world runs in real time, on a machine that may be busy: no test of one
	// waits for the time of a call to be over.
	o.RequestTimeout, o.Timeout = cmp.Or(o.RequestTimeout, 10*time.Second), cmp.Or(o.Timeout, 20*time.Second)
	if o.Models == nil {
		o.Models = fixtureModels
	}
	k, err := New(w.client, w.tables, &o)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, k.Close(context.Background())) })
	return k
}

// org puts an organisation, by node a.
func (w *world) org(o Org) {
	w.t.Helper()
	_, err := w.a.PutOrg(w.t.Context(), o)
	require.NoError(w.t, err)
}

// spend charges a label as if calls had been made.
func (w *world) spend(app, label string, micros int64) {
	w.t.Helper()
	require.NoError(w.t, adjust(w.t.Context(), w.a, orgO, app, Adjustment{Label: label, DeltaMicros: micros, Reason: "test"}))
	w.clock.advance(6 * time.Second) // past the staleness of other nodes
}

// adjust applies an adjustment for a test that needs no answer but the error.
func adjust(ctx context.Context, k *Keeper, org, app string, a Adjustment) error {
	_, err := k.Adjust(ctx, org, app, a)
	return err
}

func (w *world) total(app, label, day string) LabelTotals {
	w.t.Helper()
	totals, err := w.b.Totals(w.t.Context(), orgO, app, day)
	require.NoError(w.t, err)
	for _, l := range totals.Labels {
		if l.Label == label {
			return l
		}
	}
	return LabelTotals{}
}

func (w *world) submit(k *Keeper, u Usage) Receipt {
	w.t.Helper()
	r, err := k.Submit(w.t.Context(), orgO, appA, u)
	require.NoError(w.t, err)
	return r
}

func (w *world) recommend(k *Keeper, app string) Recommendation {
	w.t.Helper()
	r, err := k.Recommend(w.t.Context(), orgO, app)
	require.NoError(w.t, err)
	return r
}

// items reads the whole usage table.
func (w *world) items(prefix string) []store.Item {
	w.t.Helper()
	for _, k := range []*Keeper{w.a, w.b} {
		if k != nil {
			k.ledger.WaitForTotals()
		}
	}
	var out []store.Item
	pages := dynamodb.NewScanPaginator(w.a.store.Client, &dynamodb.ScanInput{TableName: &w.tables.Usage, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.Background())
		require.NoError(w.t, err)
		for _, item := range page.Items {
			if strings.HasPrefix(store.KeyOf(item).PK, prefix) {
				out = append(out, item)
			}
		}
	}
	return out
}

func requireCode(t testing.TB, err error, code Code) *ValidationError {
	t.Helper()
	var v *ValidationError
	require.ErrorAs(t, err, &v)
	require.Equal(t, code, v.Code, v.Error())
	return v
}

// together runs f n times at once from so many goroutines.
func together(goroutines, n int, f func(i int)) {
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := g; i < n; i += goroutines {
				f(i)
			}
		})
	}
	group.Wait()
}

// pass lets virtual time pass; it is for synctest bubbles alone.
func pass(d time.Duration) { <-time.After(d) }

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	require.NoError(t, err)
	return v
}

// engineHTTP keeps no idle connection, so that nothing outlives the tests.
var engineHTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// simulated runs a test in virtual time, with real clocks everywhere.
func simulated(t *testing.T, opts Options, org Org, test func(t *testing.T, db *ddbmem.DB, k *Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		pass(time.Until(fixtureNow))
		db := ddbmem.New()
		changes := watchChanges(db)
		opts.Models, opts.Principal = fixtureModels, cmp.Or(opts.Principal, tester)
		k, err := New(db.Client(), Tables{}, &opts)
		require.NoError(t, err)
		require.NoError(t, k.CreateTables(t.Context()))
		_, err = k.PutOrg(t.Context(), org)
		require.NoError(t, err)
		test(t, db, k)
		db.SetFaults(nil)
		require.NoError(t, k.Close(context.Background()))
		db.Close()
		changes.check(t)
	})
}

// back lets the store answer again, and waits until the keeper knows.
func back(db *ddbmem.DB, k *Keeper) {
	db.SetFaults(nil)
	<-k.tables.usage.Closed()
	<-k.tables.control.Closed()
}

// spent is what a counter shows after so much.
func spent(micros int64) ledger.Amount { return ledger.Amount{Spend: money.FromMicros(micros)} }

// spentOn is what f costs.
func (w *world) spentOn(f func()) ddbmem.Meter {
	before := w.db.Meter()
	f()
	return w.db.Meter().Sub(before)
}

// reserve holds so much for a minute; it must fit.
func (w *world) reserve(k *Keeper, micros int64) *Hold {
	w.t.Helper()
	h, err := k.Reserve(w.t.Context(), orgO, appA, "premium", micros, time.Minute)
	require.NoError(w.t, err)
	return h
}

// reserveFor asks for a hold of a label for as long as lease.
func reserveFor(t *testing.T, k *Keeper, label string, micros int64, lease time.Duration) (*Hold, error) {
	t.Helper()
	return k.Reserve(t.Context(), orgO, appA, label, micros, lease)
}

// onWrites answers every write of an operation with one fault.
func onWrites(operation string, fault ddbmem.Fault) ddbmem.FaultFunc {
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == operation {
			return fault
		}
		return ddbmem.Fault{}
	}
}

// onWrite injects a fault into the first n transactions.
func onWrite(n int, f ddbmem.Fault) ddbmem.FaultFunc {
	var left atomic.Int64
	left.Store(int64(n))
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" && left.Add(-1) >= 0 {
			return f
		}
		return ddbmem.Fault{}
	}
}

var conflicted = ddbmem.Fault{Error: &ddbmem.Error{
	Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}},
}}

// refuseAll is a store that refuses every request, whatever it asks.
func refuseAll(code string) ddbmem.FaultFunc {
	return func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: code, Message: "for the whole store"}}
	}
}

// down is a store that no request reaches.
func down(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} }
