package credentials

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// inParallel runs f at each node at the same time.
func inParallel(t *testing.T, f func(*Store) error, nodes ...*Store) {
	t.Helper()
	var group errgroup.Group
	for _, s := range nodes {
		group.Go(func() error { return f(s) })
	}
	require.NoError(t, group.Wait())
}

// attribute is a stored text.
func (w *world) attribute(key store.Key, name string) string {
	w.t.Helper()
	out, err := w.client.GetItem(w.t.Context(), &dynamodb.GetItemInput{TableName: &w.table, Key: key.Attributes()})
	require.NoError(w.t, err)
	var d store.Decoder
	text := d.String(out.Item, name)
	assert.NoError(w.t, d.Err)
	return text
}

// request is one as a database gets it.
type request struct {
	operation string
	body      []byte
}

// wire notes the requests that a database gets.
type wire struct {
	mu       sync.Mutex
	requests []request
}

func (r *wire) logRequest(req *ddbmem.Request) ddbmem.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request{req.Operation, bytes.Clone(req.Body)})
	return ddbmem.Fault{}
}

func (r *wire) take() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.requests
	r.requests = nil
	return taken
}

// A change that is answered late was made, and is not told as perhaps made.
func TestChangeThatIsAnsweredLateWasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *Options) { o.RequestTimeout, o.Timeout = time.Second, 2*time.Second })
		w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation != "TransactWriteItems" {
				return ddbmem.Fault{}
			}
			return ddbmem.Fault{After: 5 * time.Second}
		})
		_, err := w.a.Create(t.Context(), orgO, appA)
		require.NoError(t, err)
	})
}
