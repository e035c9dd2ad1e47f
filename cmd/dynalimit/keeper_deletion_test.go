package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// startIn starts one of the fleet in a context.
func (f *fleet) startIn(ctx context.Context, t *testing.T, args ...string) *runningKeeper {
	t.Helper()
	return startKeeperIn(ctx, t, append([]string{"--endpoint", f.endpoint, "--as", "keeper", "--keyset", f.keyset}, args...)...)
}

// TestKeeperFinishesWhatAClientBegan: the client of a purge goes away in the middle of it and
// never asks again; of two nodes the one that sweeps completes it, with what another process
// counted meanwhile, and its metrics say so. Then the organisation can be put again.
func TestKeeperFinishesWhatAClientBegan(t *testing.T) {
	f := newFleet(t)
	document, err := os.ReadFile(f.keyset)
	require.NoError(t, err)
	keys, err := credentials.ParseKeySet(document)
	require.NoError(t, err)
	store, err := credentials.New(f.db.Client(), "control", &credentials.Options{Keys: keys, Principal: "ann"})
	require.NoError(t, err)
	key, err := store.CreateKey(t.Context(), "operations")
	require.NoError(t, err)
	often := filepath.Join(t.TempDir(), "keeper.yaml")
	require.NoError(t, os.WriteFile(often, []byte("aggregation: {every: 1s}\n"), 0o600))
	var later atomic.Int64 // how far the nodes' clock is ahead
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	ctx := context.WithValue(t.Context(), clockKey{}, clock)
	nodes := []*runningKeeper{f.startIn(ctx, t, "--config", often), f.startIn(ctx, t, "--config", often)}
	says := func(name string) (sum float64) {
		for _, k := range nodes {
			sum += k.scrape(t, "dynalimit_keeper_"+name)
		}
		return sum
	}
	eventually := func(name string, want float64) {
		t.Helper()
		require.Eventually(t, func() bool { return says(name) == want }, 60*time.Second, 50*time.Millisecond, name)
	}
	count := func(id string) {
		usage := budget.Usage{RequestID: id, Label: "premium", Tokens: budget.Tokens{Input: 1500, Output: 800}}
		_, err := f.keeper.Submit(t.Context(), fleetOrg, fleetApp, usage)
		require.NoError(t, err)
	}
	count("00000000-0000-4000-8000-000000000001")

	client, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	f.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "Scan" && r.Table == "usage" {
			leave()
			select {
			case <-left:
			case <-r.Context.Done():
			}
		}
		return ddbmem.Fault{}
	})
	ask := func(ctx context.Context, method, path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, nodes[0].url+"/api/v1/orgs/"+fleetOrg+path, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("X-API-Key", key.Secret.Reveal())
		return nodes[0].http.Do(r)
	}
	_, err = ask(client, http.MethodDelete, "?purge=true") //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	close(left)
	f.db.SetFaults(nil)
	eventually("requests_in_flight", 0)
	eventually("deletions_open", 1)
	count("00000000-0000-4000-8000-000000000002") // by a process that has not noticed
	assert.InDelta(t, 0, says("deletions_completed_total"), 0)

	later.Store(int64(7 * time.Minute))
	eventually("deletions_completed_total", 1)
	eventually("deletions_open", 0)
	assert.Positive(t, says("items_purged_total"))
	assert.Regexp(t, `"msg":"keeper: deletions","open":0,"completed":1,"items_purged":\d`, nodes[0].logged()+nodes[1].logged())
	_, err = f.keeper.PutOrg(t.Context(), budget.Org{ID: fleetOrg, Timezone: "UTC", Ordering: []string{"premium"}, Quotas: map[string]int64{"premium": 1}})
	require.NoError(t, err)
	day, err := f.keeper.Totals(t.Context(), fleetOrg, "", "")
	require.NoError(t, err)
	assert.Zero(t, day.CostMicros, "nothing is left of what was counted")
}
