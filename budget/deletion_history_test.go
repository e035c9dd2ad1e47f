package budget

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/budget/internal/fixture"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/prices"
)

const (
	callCost  = 16_500 // of call, in µ$
	roomAtAll = 12 * callCost
)

// accepted is a record that a keeper took.
type accepted struct {
	app string
	n   int
}

// deletions is one random run over an organisation that is put, used and deleted by processes
// of which one notices late.
type deletions struct {
	*world
	rt      *rapid.T
	org     Org
	keepers []*Keeper // the last one uses a configuration for five minutes
	plan    []int     // choices that are drawn before they are needed, by a rival
	made    int
	first   string                // day
	counts  map[string][]accepted // by scope: what is to be found there
	failed  []string
}

var deletionApps = []string{appA, appB}

func (h *deletions) n(limit int) int {
	if h.plan == nil {
		return rapid.IntRange(0, limit-1).Draw(h.rt, "n")
	}
	if len(h.plan) == 0 {
		return 0
	}
	n := h.plan[0] % limit
	h.plan = h.plan[1:]
	return n
}

func (h *deletions) app() string     { return deletionApps[h.n(2)] }
func (h *deletions) keeper() *Keeper { return h.keepers[h.n(len(h.keepers))] }

func (h *deletions) failf(format string, args ...any) {
	h.failed = append(h.failed, fmt.Sprintf(format, args...))
}

// expect notes an error that no call may have here.
func (h *deletions) expect(err error) {
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrConflict) && !errors.Is(err, prices.ErrQuotaExceeded) {
		h.failf("unexpected: %v", err)
	}
}

func (h *deletions) scope(app string) string {
	if h.org.Scope == ScopeOrg {
		return ledger.OrgScope(orgO)
	}
	return ledger.AppScope(orgO, app)
}

// took counts a record that was accepted.
func (h *deletions) took(app string, n int) {
	h.counts[h.scope(app)] = append(h.counts[h.scope(app)], accepted{app, n})
}

func (h *deletions) submit() {
	n, app := h.made, h.app()
	if h.made > 0 && h.n(4) == 0 {
		n = h.n(h.made) // perhaps of the other app
	} else {
		h.made++
	}
	u := call(n)
	u.Time = h.clock.Now()
	known := slices.Contains(h.counts[h.scope(app)], accepted{app, n})
	r, err := h.keeper().Submit(h.t.Context(), orgO, app, u)
	h.expect(err)
	switch {
	case err != nil:
	case !r.Duplicate && known:
		h.failf("%s %d was counted twice", app, n)
	case !r.Duplicate:
		h.took(app, n)
	case !known:
		h.failf("%s %d was not counted", app, n)
	}
}

func (h *deletions) put() {
	k, ctx := h.keeper(), h.t.Context()
	_, err := k.Setup().PutOrg(ctx, h.org)
	if open := h.note("").Since != 0 && h.deleted(""); open != errors.Is(err, ErrConflict) {
		h.failf("PutOrg while the deletion is open: %v: %v", open, err)
	}
	app := h.app()
	_, err = k.Setup().PutApp(ctx, orgO, App{ID: app})
	h.expect(err)
	if h.n(3) == 0 {
		h.expect(h.keeper().Setup().Override(ctx, orgO, app, "economy", h.clock.Now().Add(time.Hour)))
	}
}

// removal is a deletion that a test can look into.
func (h *deletions) removal(k *Keeper) (d *deletion, run func(context.Context) error, marked *atomic.Bool) {
	d, marked = &deletion{store: k.store, admin: k.admin, by: tester, org: orgO, revoke: revokeNothing}, new(atomic.Bool)
	mark, steps := d.markOrg, []func(context.Context) error{d.deleteApps}
	if h.n(3) == 0 {
		d.app = h.app()
		mark, steps = d.markApp, nil
	}
	return d, func(ctx context.Context) error {
		return d.run(ctx, "removal", func(ctx context.Context) error {
			err := mark(ctx)
			marked.Store(err == nil)
			return err
		}, steps...)
	}, marked
}

func (h *deletions) remove() {
	_, run, _ := h.removal(h.keeper())
	h.expect(run(h.t.Context()))
}

func (h *deletions) finish() {
	_, err := h.keeper().Setup().FinishDeletions(h.t.Context(), revokeNothing)
	h.expect(err)
}

func (h *deletions) sweep() {
	_, err := h.keeper().Sweep(h.t.Context())
	h.expect(err)
}

func (h *deletions) wait() {
	h.clock.Advance([]time.Duration{time.Second, 20 * time.Second, 2 * time.Minute, 4 * time.Minute, 6 * time.Minute, 10 * time.Hour}[h.n(6)])
}

// look reads totals, which may store them.
func (h *deletions) look() {
	k, app := h.keeper(), h.app()
	if h.org.Scope == ScopeOrg {
		app = ""
	}
	var cost int64
	for day, err := range k.History(h.t.Context(), orgO, app, h.first, h.today()) {
		if h.expect(err); err != nil {
			return
		}
		cost += day.CostMicros
	}
	if want := int64(len(h.counts[h.scope(app)]) * callCost); cost != want && !h.deleted(app) {
		h.failf("the totals of %q are %d, not %d", app, cost, want)
	}
}

// renew completes a deletion and puts everything again.
func (h *deletions) renew() {
	k := h.keepers[h.n(2)]
	for range 2 {
		_, err := k.Setup().FinishDeletions(h.t.Context(), revokeNothing)
		h.expect(err)
		h.clock.Advance(6 * time.Minute)
	}
	for range 2 {
		h.put()
		h.submit()
	}
}

// act is what happens, at once and all of it.
func (h *deletions) act() {
	actions := []func(){h.submit, h.submit, h.submit, h.submit, h.put, h.put, h.remove, h.finish, h.sweep, h.wait, h.wait, h.look, h.renew}
	actions[h.n(len(actions))]()
	h.clock.Advance(time.Millisecond)
}

// rivals does several things while a request of another is on its way.
func (h *deletions) rivals(rt *rapid.T) {
	at := int64(rapid.IntRange(1, 25).Draw(rt, "request"))
	plan := rapid.SliceOfN(rapid.IntRange(0, 59), 12, 40).Draw(rt, "plan")
	var n atomic.Int64
	var before map[store.Key]any
	k := h.open(&Options{}) // waits for no other, nor another for it
	defer func() { require.NoError(rt, k.Close(context.Background())) }()
	d, run, marked := h.removal(k)
	which := h.n(4)
	h.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		if n.Add(1) != at {
			return ddbmem.Fault{}
		}
		n.Store(1 << 40)
		begun := which < 2 && marked.Load()
		h.plan = plan
		for range 3 {
			h.act()
		}
		if which%2 == 0 {
			h.renew()
		}
		h.plan = nil
		if begun && h.note(d.app).none() {
			before = h.snapshot()
		}
		return ddbmem.Fault{}
	})
	switch which {
	case 2:
		_, err := k.Setup().FinishDeletions(h.t.Context(), revokeNothing)
		h.expect(err)
	case 3:
		_, err := k.Sweep(h.t.Context())
		h.expect(err)
	default:
		h.expect(run(h.t.Context()))
	}
	h.db.SetFaults(nil)
	if before != nil && !reflect.DeepEqual(before, h.snapshot()) {
		h.failf("what was put again was touched at request %d", at)
	}
}

// killed ends a process at one of its requests, before or after that landed.
func (h *deletions) killed(rt *rapid.T) {
	at := int64(rapid.IntRange(1, 25).Draw(rt, "request"))
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	k := h.open(&Options{})
	_, run, _ := h.removal(k)
	if h.n(2) == 0 {
		run = func(ctx context.Context) error {
			_, err := k.Setup().FinishDeletions(ctx, revokeNothing)
			return err
		}
	}
	lose := h.n(2) == 0
	var n atomic.Int64
	h.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		i := n.Add(1)
		if i < at {
			return ddbmem.Fault{}
		}
		cancel()
		return ddbmem.Fault{Lose: lose && i == at, Drop: !lose || i > at}
	})
	_ = run(ctx)
	h.db.SetFaults(nil)
	require.NoError(rt, k.Close(context.Background()))
}

func (h *deletions) open(o *Options) *Keeper {
	o.Now, o.Principal, o.Models, o.RequestTimeout, o.Timeout = h.clock.Now, tester, fixtureModels, 10*time.Second, 20*time.Second
	k, err := New(h.client, h.tables, o)
	require.NoError(h.rt, err)
	return k
}

// TestHistoriesOfDeletions: whatever processes put, delete and count at the same time, wherever
// they are killed, and though one of them notices late, each call that was accepted is counted
// once; what is put again is touched by no older deletion; and each deletion can be completed. DYNALIMIT_HISTORIES says how many (25).
func TestHistoriesOfDeletions(t *testing.T) {
	require.NoError(t, flag.Set("rapid.checks", cmp.Or(os.Getenv("DYNALIMIT_HISTORIES"), "25")))
	require.NoError(t, flag.Set("rapid.steps", "10"))
	rapid.Check(t, func(rt *rapid.T) {
		e := fixture.InProcess(t)
		w := &world{t: t, engine: e, db: e.DB, client: e.Client, clock: e.Clock, tables: Tables{fixture.Table("control"), fixture.Table("usage")}}
		defer w.db.Close()
		h := &deletions{world: w, rt: rt, counts: map[string][]accepted{}, org: fixtureOrg()}
		h.org.Timezone, h.org.Quotas["premium"] = "UTC", roomAtAll
		h.org.Scope = rapid.SampledFrom([]Scope{ScopeApp, ScopeOrg}).Draw(rt, "scope")
		h.first = h.today()
		for _, o := range []*Options{{}, {}, {ConfigTTL: usableFor}} {
			k := h.open(o)
			defer func() { require.NoError(rt, k.Close(context.Background())) }()
			h.keepers = append(h.keepers, k)
		}
		w.a, w.b = h.keepers[0], h.keepers[1]
		require.NoError(rt, w.a.Setup().CreateTables(t.Context()))
		w.org(h.org)
		for _, app := range deletionApps {
			_, err := w.a.Setup().PutApp(t.Context(), orgO, App{ID: app})
			require.NoError(rt, err)
			w.recommend(h.keepers[2], app)
		}
		act := func(*rapid.T) { h.act() }
		rt.Repeat(map[string]func(*rapid.T){"act": act, "use": act, "go on": act, "rivals": h.rivals, "killed": h.killed, "": h.check})
		h.rest(rt)
	})
}
