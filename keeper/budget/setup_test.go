package budget

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	orgO = fixture.OrgO
	appA = fixture.AppA
	appB = fixture.AppB

	premiumModel  = fixture.PremiumModel
	standardModel = fixture.StandardModel
	economyModel  = fixture.EconomyModel
	microModel    = fixture.MicroModel

	tester = fixture.Principal
)

var (
	fixtureNow    = fixture.Now
	fixtureModels = map[string]string{
		"premium": premiumModel, "standard": standardModel, "economy": economyModel, "micro": microModel,
	}

	uuid     = fixture.UUID
	together = fixture.Together

	conflicted = fixture.Conflicted
	down       = fixture.Down
)

func fixtureOrg() Org {
	return Org{
		ID: orgO, Name: "sample", Timezone: "America/New_York", Scope: ScopeApp,
		Ordering: []string{"premium", "standard", "economy"},
		Quotas:   map[string]int64{"premium": 10_000_000, "standard": 5_000_000, "economy": 2_000_000},
		Sticky:   true,
	}
}

// call is U(n): 1,500 in and 800 out of premium, 16,500 µ$.
func call(n int) prices.Usage {
	return prices.Usage{
		RequestID: uuid(n), Label: "premium", Model: premiumModel,
		Tokens: prices.Tokens{Input: 1500, Output: 800}, Status: "OK", Time: fixtureNow,
	}
}

// world is two nodes with separate caches on the same tables.
type world struct {
	t      testing.TB
	engine *fixture.Engine
	db     *ddbmem.DB // nil on a third-party engine
	client Client
	clock  *fixture.Clock
	tables Tables
	a, b   *Keeper
}

// engines runs a test on every engine, without faults and with.
func engines(t *testing.T, test func(t *testing.T, w *world)) {
	fixture.Engines(t, func(t testing.TB, e *fixture.Engine) *world { return worldOn(t, e) }, test)
}

func newWorld(t testing.TB, adapt ...func(*Options)) *world {
	return worldOn(t, fixture.InProcess(t), adapt...)
}

func worldOn(t testing.TB, e *fixture.Engine, adapt ...func(*Options)) *world {
	w := &world{
		t: t, engine: e, db: e.DB, client: e.Client, clock: e.Clock,
		tables: Tables{fixture.Table("control"), fixture.Table("usage")},
	}
	if w.db != nil {
		changes := watchChanges(w.db)
		t.Cleanup(func() {
			w.db.Close()
			changes.check(t)
		})
	}
	var opts Options
	for _, f := range adapt {
		f(&opts)
	}
	w.a, w.b = w.keeper(&opts), w.keeper(&opts)
	require.NoError(w.t, w.a.Setup().CreateTables(w.t.Context()))
	return w
}

// keeper adds a node.
func (w *world) keeper(opts *Options) *Keeper {
	o := *opts
	o.Now, o.Principal, o.AllowUnknownApps = w.clock.Now, cmp.Or(o.Principal, tester), true
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
	_, err := w.a.Setup().PutOrg(w.t.Context(), o)
	require.NoError(w.t, err)
}

// spend charges a label as if calls had been made.
func (w *world) spend(app, label string, micros int64) {
	w.t.Helper()
	require.NoError(w.t, adjust(w.t.Context(), w.a, orgO, app, Adjustment{Label: label, DeltaMicros: micros, Reason: "test"}))
	w.clock.Advance(6 * time.Second) // past the staleness of other nodes
}

// adjust applies an adjustment for a test that needs no answer but the error.
func adjust(ctx context.Context, k *Keeper, org, app string, a Adjustment) error {
	_, err := k.Setup().Adjust(ctx, org, app, a)
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

func (w *world) submit(k *Keeper, u prices.Usage) Receipt {
	w.t.Helper()
	r, err := w.send(k, u)
	require.NoError(w.t, err)
	return r
}

// send submits a record. In a run with faults it does so again after a moment in which the store
// was taken for silent: on a busy machine a lost answer and the probe after it take that long.
func (w *world) send(k *Keeper, u prices.Usage) (r Receipt, err error) {
	for {
		r, err = k.Submit(w.t.Context(), orgO, appA, u)
		if !w.engine.Flaky() || !errors.Is(err, fault.ErrUnavailable) {
			return r, err
		}
		<-k.tables.usage.Closed()
	}
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
	return fixture.Items(w.t, w.a.store.Client, w.tables.Usage, prefix)
}

func requireCode(t testing.TB, err error, code fault.Code) *fault.ValidationError {
	t.Helper()
	var v *fault.ValidationError
	require.ErrorAs(t, err, &v)
	require.Equal(t, code, v.Code, v.Error())
	return v
}

// pass lets virtual time pass; it is for synctest bubbles alone.
func pass(d time.Duration) { <-time.After(d) }

func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, s)
	require.NoError(t, err)
	return v
}

// simulated runs a test in virtual time, with real clocks everywhere.
func simulated(t *testing.T, opts Options, org Org, test func(t *testing.T, db *ddbmem.DB, k *Keeper)) {
	synctest.Test(t, func(t *testing.T) {
		pass(time.Until(fixtureNow))
		db := ddbmem.New()
		changes := watchChanges(db)
		opts.Models, opts.Principal, opts.AllowUnknownApps = fixtureModels, cmp.Or(opts.Principal, tester), true
		k, err := New(db.Client(), Tables{}, &opts)
		require.NoError(t, err)
		require.NoError(t, k.Setup().CreateTables(t.Context()))
		_, err = k.Setup().PutOrg(t.Context(), org)
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
func spent(micros int64) money.Picos { return money.FromMicros(micros) }

// spentOn is what f costs.
func (w *world) spentOn(f func()) ddbmem.Meter {
	before := w.db.Meter()
	f()
	return w.db.Meter().Sub(before)
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
	return onTransactions(func(i int) ddbmem.Fault {
		if i <= n {
			return f
		}
		return ddbmem.Fault{}
	})
}

// refuseAll is a store that refuses every request, whatever it asks.
func refuseAll(code string) ddbmem.FaultFunc {
	return allOf(ddbmem.Fault{Error: &ddbmem.Error{Code: code, Message: "for the whole store"}})
}
