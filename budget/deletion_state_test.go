package budget

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/budget/internal/fixture"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/money"
)

func (h *deletions) today() string { return h.clock.Now().Format("20060102") }

func (h *deletions) note(app string) deletionWork {
	w, err := h.a.admin.notes.readWork(h.t.Context(), orgO, app)
	require.NoError(h.t, err)
	return w
}

// deleted reports whether no call finds an app, or the organisation where it is empty.
func (h *deletions) deleted(app string) bool {
	gone, err := h.a.admin.notes.isDeleted(h.t.Context(), orgO, "")
	if err == nil && app != "" && !gone {
		gone, err = h.a.admin.notes.isDeleted(h.t.Context(), orgO, app)
	}
	require.NoError(h.t, err)
	return gone
}

func (h *deletions) snapshot() map[store.Key]any {
	all := map[store.Key]any{}
	for _, k := range h.keepers {
		k.ledger.WaitForTotals()
	}
	for _, table := range []string{h.tables.Control, h.tables.Usage} {
		for _, item := range fixture.Items(h.t, h.db.Client(), table, "") {
			all[store.KeyOf(item)] = item
		}
	}
	return all
}

// rows are the counters of the labels' days of a scope.
func (h *deletions) rows(items []store.Item, scope string) (rows map[store.Key]ledger.Counter) {
	rows = map[store.Key]ledger.Counter{}
	for _, item := range items {
		if key := store.KeyOf(item); isLabelDay(key) && strings.HasPrefix(key.PK, scope+"#LABEL#") {
			row, err := ledger.DecodeCounter(item)
			require.NoError(h.t, err)
			rows[key] = row
		}
	}
	return rows
}

// check: what is counted is what was accepted, once each.
func (h *deletions) check(rt *rapid.T) {
	require.Empty(rt, h.failed)
	apps := deletionApps
	if h.org.Scope == ScopeOrg {
		apps = []string{""}
	}
	items := h.items("")
	for _, app := range apps {
		scope := h.scope(app)
		var requests int64
		var spend money.Picos
		for _, row := range h.rows(items, scope) {
			requests += row.Requests
			spend = spend.Add(row.Spend())
		}
		require.Equal(rt, int64(len(h.counts[scope])), requests, scope)
		require.Equal(rt, money.FromMicros(int64(len(h.counts[scope])*callCost)).String(), spend.String())
	}
}

// rest completes every deletion, and looks once more.
func (h *deletions) rest(rt *rapid.T) {
	h.clock.Advance(2 * time.Hour)
	_, err := h.a.Setup().FinishDeletions(h.t.Context(), revokeNothing)
	require.NoError(rt, err)
	for _, app := range []string{"", appA, appB} {
		require.True(rt, h.note(app).none(), "a deletion cannot be completed")
	}
	_, err = h.a.Sweep(h.t.Context())
	require.NoError(rt, err)
	h.check(rt)
}
