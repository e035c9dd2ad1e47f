package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestKeeperFinishesWhatAClientBegan: the client of a deletion goes away in the middle of it and
// never asks again; of two nodes the one that sweeps completes it, and its metrics say so. Then
// the organisation can be put again.
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
	nodes := []*runningKeeper{f.start(t, "--config", often), f.start(t, "--config", often)}
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
	client, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	f.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "DeleteItem" && r.Table == "control" {
			leave()
			select {
			case <-left:
			case <-r.Context.Done(): // the client's
				return ddbmem.Fault{Drop: true}
			}
		}
		return ddbmem.Fault{}
	})
	ask := func(ctx context.Context, method string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, nodes[0].url+"/api/v1/orgs/"+fleetOrg, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("X-API-Key", key.Secret.Reveal())
		return nodes[0].http.Do(r)
	}
	_, err = ask(client, http.MethodDelete) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.Canceled)
	eventually("requests_in_flight", 0)
	close(left)
	f.db.SetFaults(nil)
	eventually("deletions_completed_total", 1)
	eventually("deletions_open", 0)
	assert.Contains(t, nodes[0].logged()+nodes[1].logged(), `"msg":"keeper: deletions","open":0,"completed":1`)
	_, err = f.keeper.Setup().PutOrg(t.Context(), budget.Org{ID: fleetOrg, Timezone: "UTC", Ordering: []string{"premium"}, Quotas: map[string]int64{"premium": 1}})
	require.NoError(t, err)
}
