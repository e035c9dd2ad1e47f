package budget

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/budget/internal/fixture"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

func (h *deletions) today() string { return h.clock.Now().Format("20060102") }

func (h *deletions) note(app string) deletionWork {
	w, err := h.a.admin.readWork(h.t.Context(), orgO, app)
	require.NoError(h.t, err)
	return w
}

// stored is how often a tenant was purged, and whether it is deleted.
func (h *deletions) stored(app string) (purges int64, deleted bool) {
	item, err := h.a.store.Get(h.t.Context(), h.tables.Control, storedKey(app))
	require.NoError(h.t, err)
	return decodeStored(h.t, item)
}

func storedKey(app string) store.Key {
	if app == "" {
		return orgKey(orgO)
	}
	return appKey(orgO, app)
}

func decodeStored(t testing.TB, item store.Item) (purges int64, deleted bool) {
	var i configItem
	require.NoError(t, attributevalue.UnmarshalMap(item, &i))
	return i.Purges, i.deleted()
}

func (h *deletions) deleted(app string) bool {
	_, gone := h.stored("")
	if app != "" && !gone {
		_, gone = h.stored(app)
	}
	return gone
}

// purging: what is counted is neither there nor gone.
func (h *deletions) purging(app string) bool {
	if h.note("").Purge {
		return true
	}
	apps := []string{app}
	if app == "" {
		apps = deletionApps
	}
	return slices.ContainsFunc(apps, func(app string) bool { return h.note(app).Purge })
}

// observe notices purges that are complete: nothing is left of what was counted.
func (h *deletions) observe() {
	control := map[store.Key]store.Item{}
	for _, item := range fixture.Items(h.t, h.client, h.tables.Control, orgPrefix) {
		control[store.KeyOf(item)] = item
	}
	for _, app := range []string{"", appA, appB} {
		purges, _ := decodeStored(h.t, control[storedKey(app)])
		if purges == h.purges[app] || control[deletionKey(orgO, app)] != nil {
			continue
		}
		h.purges[app] = purges
		if left := belonging(h.world, orgO, app); len(left) > 0 {
			h.failf("%v are left of a purge of %q", left, app)
		}
		switch {
		case app == "":
			h.counts = map[string][]accepted{}
		case h.org.Scope == ScopeApp:
			delete(h.counts, h.scope(app))
		default: // they stay in the organisation's sums; their ids are not known any more
			for i, r := range h.counts[h.scope("")] {
				if r.app == app {
					h.counts[h.scope("")][i] = accepted{}
				}
			}
		}
	}
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
		if h.org.Scope == ScopeOrg && h.note("").Purge || h.org.Scope == ScopeApp && h.purging(app) {
			continue
		}
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
	for range 100 {
		report, err := h.a.FinishDeletions(h.t.Context(), Deletion{Revoke: revokeNothing, Pages: 1})
		require.NoError(rt, err)
		h.observe()
		if report.Open == 0 {
			break
		}
	}
	for _, app := range []string{"", appA, appB} {
		require.True(rt, h.note(app).none(), "a deletion cannot be completed")
	}
	_, err := h.a.Sweep(h.t.Context())
	require.NoError(rt, err)
	h.check(rt)
}
