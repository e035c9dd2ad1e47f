package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld/spend"
)

// office is a console over a world of a few days, whose visitor a test chooses.
type office struct {
	*spend.World
	handler http.Handler
	mu      sync.Mutex
	access  console.Access
	err     error
}

func newOffice(t *testing.T, change func(*console.Options)) *office {
	t.Helper()
	o := &office{World: spend.New(t, time.Date(2026, 11, 27, 18, 17, 0, 0, time.UTC), 3), access: console.Access{Principal: "ann"}}
	opts := &console.Options{Now: o.Now, Authorize: func(*http.Request) (console.Access, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.access, o.err
	}}
	if change != nil {
		change(opts)
	}
	var err error
	o.handler, err = console.New(o.Repo, o.Reader, opts)
	require.NoError(t, err)
	return o
}

// get asks for a path, and returns the answer with what it cost.
func (o *office) get(path string) (*httptest.ResponseRecorder, ddbmem.Meter) {
	return o.send(httptest.NewRequest(http.MethodGet, "http://localhost:7777"+path, nil))
}

func (o *office) send(r *http.Request) (*httptest.ResponseRecorder, ddbmem.Meter) {
	before, answer := o.DB.Meter(), httptest.NewRecorder()
	o.handler.ServeHTTP(answer, r)
	return answer, o.DB.Meter().Sub(before)
}

// routes are the addresses that a whole page has as its links.
func routes(body string) (all []string) {
	for _, part := range strings.Split(body, `href="`)[1:] {
		address, _, _ := strings.Cut(part, `"`)
		if strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "/static/") {
			all = append(all, strings.ReplaceAll(address, "&amp;", "&"))
		}
	}
	return all
}

// addKeys adds n keys to a team, written as an administrator's transactions leave them.
func (o *office) addKeys(t *testing.T, team string, n int) {
	t.Helper()
	keys, client := schema.NewKeys(""), o.DB.Client()
	writes := make(chan []types.WriteRequest)
	var workers errgroup.Group
	for range 4 {
		workers.Go(func() error {
			for batch := range writes {
				if _, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"limits": batch}}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var batch []types.WriteRequest
	for i := range n {
		e := schema.EntityRecord{ID: fmt.Sprintf("%s.k%06d", team, i), Name: "Key", ParentID: team, Plan: "free", Version: 1, CreatedAt: o.Now()}
		if batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: e.Item(keys, nil)}}); len(batch) == 25 || i == n-1 {
			writes <- batch
			batch = nil
		}
	}
	close(writes)
	require.NoError(t, workers.Wait())
}
