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
	keys := schema.NewKeys("")
	o.putItems(t, n, func(i int) schema.Item {
		e := schema.EntityRecord{ID: fmt.Sprintf("%s.k%06d", team, i), Name: "Key", ParentID: team, Plan: "free", Version: 1, CreatedAt: o.Now()}
		return e.Item(keys, nil)
	})
}

// putItems puts n items into the table, in batches side by side.
func (o *office) putItems(t *testing.T, n int, item func(i int) schema.Item) {
	t.Helper()
	client, batches := o.DB.Client(), errgroup.Group{}
	batches.SetLimit(4)
	for from := 0; from < n; from += 25 {
		var puts []types.WriteRequest
		for i := from; i < min(from+25, n); i++ {
			puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: item(i)}})
		}
		batches.Go(func() error {
			_, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"limits": puts}})
			return err
		})
	}
	require.NoError(t, batches.Wait())
}
