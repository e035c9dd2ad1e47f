package budgethttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// abandon sends a request and hangs up when the store is asked to write, while what it does
// with that goes wrong.
func (n *node) abandon(path, token string, body any, fault ddbmem.Fault) {
	n.t.Helper()
	ctx, hangUp := context.WithCancel(n.t.Context())
	defer hangUp()
	var once sync.Once
	n.world.engine.SetFaults(func(r *ddbmem.Request) (f ddbmem.Fault) {
		if r.Operation == "TransactWriteItems" {
			once.Do(func() {
				hangUp()
				f = fault
			})
		}
		return f
	})
	defer n.world.engine.SetFaults(nil)
	raw, err := wireJSON(body)
	require.NoError(n.t, err)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+path, bytes.NewReader(raw))
	require.NoError(n.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+n.world.bearer(token))
	res, err := n.client.Do(r)
	if err == nil { // it was faster
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return
	}
	require.ErrorIs(n.t, err, context.Canceled)
}

// Clients hang up in the middle of a write, and the write is lost, refused, late or answered
// to nobody: what is sent again is counted once.
func TestClientsThatHangUpLoseAndDoubleNothing(t *testing.T) {
	faults := map[string]ddbmem.Fault{
		"none":        {},
		"lost":        {Drop: true},
		"answer lost": {Lose: true},
		"slow":        {Before: 3 * time.Millisecond, After: 3 * time.Millisecond},
		"throttled":   {Error: &ddbmem.Error{Code: "ThrottlingException"}},
		"conflict":    fixture.Conflicted,
		"error":       {Error: &ddbmem.Error{Code: "InternalServerError"}},
	}
	engines(t, func(t *testing.T, w *world) {
		i := 0
		for name, fault := range faults {
			i++
			n, other := []*node{w.a, w.b}[i%2], []*node{w.b, w.a}[i%2]
			usage := call(i)
			n.abandon(pathA+"/usage", "a", usage, fault)
			again := other.as("a").do(http.MethodPost, pathA+"/usage", usage).is(http.StatusAccepted)
			assert.Equal(t, int64(16_500), again.number("cost_usd_micros"), name)
		}
		w.clock.Advance(6 * time.Second)
		assert.Equal(t, int64(len(faults)*16_500), w.total("premium", "").number("cost_usd_micros"))
	})
}
