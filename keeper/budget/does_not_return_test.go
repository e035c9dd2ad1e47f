package budget

import (
	"context"
	"net/http"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// endings are ways in which a user's code does not return.
var endings = map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit}

// A hook that does not return fails no call. Its event is told again later, and the others are
// told at once.
func TestHookThatDoesNotReturnIsToldAgain(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.org(fixtureOrg())
			var r recorder
			first := true
			k := w.keeper(&Options{OnEvent: func(ctx context.Context, e Event) {
				if e.Percent == 50 && first {
					first = false
					end()
				}
				r.hook(ctx, e)
			}})
			w.spend(appA, "premium", 8_000_000)
			w.recommend(k, appA)
			assert.Equal(t, []string{"premium 80"}, r.take())
			w.clock.Advance(65 * time.Second)
			w.recommend(k, appA)
			assert.Equal(t, []string{"premium 50"}, r.take())
		})
	}
}

// A hook of refused records that does not return ends no replay.
func TestRefusedHookThatDoesNotReturnEndsNoReplay(t *testing.T) {
	for name, end := range endings {
		var refused atomic.Int32
		opts := Options{Spool: filepath.Join(t.TempDir(), "spool"), OnRefused: func(SpooledUsage, error) { refused.Add(1); end() }}
		t.Run(name, func(t *testing.T) {
			simulated(t, opts, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
				db.SetFaults(down)
				for i := range 3 {
					u := call(i)
					u.Model = standardModel // which the label never had
					if i == 2 {
						u = call(i)
					}
					spoolOne(t, k, u)
				}
				back(db, k)
				pass(time.Minute)
				assert.Zero(t, k.Health().Spooled)
				assert.EqualValues(t, 2, refused.Load())
				got, err := k.Totals(t.Context(), orgO, appA, "")
				require.NoError(t, err)
				assert.EqualValues(t, 1, got.Labels[0].Requests)
			})
		})
	}
}

// endsOnce is a transport that does not return from one request of an operation.
type endsOnce struct {
	*ddbmem.DB
	operation string
	left      atomic.Int32
	end       func()
}

func (e *endsOnce) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Amz-Target") == "DynamoDB_20120810."+e.operation && e.left.Add(-1) == 0 {
		e.end()
	}
	return e.DB.Do(r)
}

// A client that does not return from one request loses no record, and stops neither the ledger
// nor Close.
func TestClientThatDoesNotReturnLosesNoRecord(t *testing.T) {
	for name, end := range endings {
		for _, operation := range []string{"TransactWriteItems", "Query", "BatchGetItem"} {
			t.Run(name+" "+operation, func(t *testing.T) {
				w := newWorld(t)
				w.org(fixtureOrg())
				transport := &endsOnce{DB: w.db, operation: operation, end: end}
				client := dynamodb.New(w.client.(*dynamodb.Client).Options(), func(o *dynamodb.Options) { o.HTTPClient = transport })
				k, err := New(client, w.tables, &Options{Now: w.clock.Now, Principal: tester, AllowUnknownApps: true, Models: fixtureModels})
				require.NoError(t, err)
				submit := func(n int) (err error) {
					done := make(chan struct{})
					go func() { // which the client may end
						defer close(done)
						_, err = k.Submit(context.Background(), orgO, appA, call(n))
						_, _ = k.Recommend(context.Background(), orgO, appA)
					}()
					<-done
					return err
				}
				require.NoError(t, submit(1))
				w.clock.Advance(time.Minute)
				transport.left.Store(1)
				_ = submit(2)
				for range 3 {
					require.NoError(t, submit(2), "again, unless it is counted")
				}
				require.NoError(t, submit(3))
				require.NoError(t, k.Close(t.Context()))
				assert.EqualValues(t, 3, w.total(appA, "premium", "").Requests)
			})
		}
	}
}
