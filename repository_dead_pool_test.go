package dynalimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// wrapped is an HTTP client that cannot close its idle connections.
type wrapped struct{ next aws.HTTPClient }

func (w wrapped) Do(r *http.Request) (*http.Response, error) { return w.next.Do(r) }

// pooledClients are HTTP clients that keep so many idle connections.
var pooledClients = map[string]func(idle int) aws.HTTPClient{
	"http.Client": func(idle int) aws.HTTPClient {
		return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: idle, MaxIdleConns: idle}}
	},
	"BuildableClient": func(idle int) aws.HTTPClient {
		return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost, t.MaxIdleConns = idle, idle })
	},
	"wrapper": func(idle int) aws.HTTPClient {
		return wrapped{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: idle, MaxIdleConns: idle}}}
	},
}

// crowd answers like an engine, but lets so many requests arrive before it answers any.
type crowd struct {
	engine http.Handler
	wanted atomic.Int64
	met    chan struct{}
}

// gather has the next n requests wait for each other.
func (c *crowd) gather(n int) {
	c.met = make(chan struct{})
	c.wanted.Store(int64(n))
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch left := c.wanted.Add(-1); {
	case left == 0:
		close(c.met)
	case left > 0:
		<-c.met
	}
	c.engine.ServeHTTP(w, r)
}

// onPool is a process whose client has so many idle connections, through a proxy that can
// kill them.
func onPool(t *testing.T, client aws.HTTPClient, idle int, opts *dynalimit.Options) (*process, *testworld.Proxy, func()) {
	t.Helper()
	s := memProcess(t, opts)
	front := &crowd{engine: s.db}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	proxy, err := testworld.NewProxy(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	api := s.client(func(o *dynamodb.Options) { o.HTTPClient, o.BaseEndpoint = client, aws.String(proxy.Endpoint()) })
	repo, err := openRepository(api, s.repo.table, &dynalimit.RepositoryOptions{Now: s.clock.now, Principal: tester})
	require.NoError(t, err)
	return s.on(repo, opts), proxy, func() {
		front.gather(idle)
		var all sync.WaitGroup
		for range idle {
			all.Go(func() {
				_, err := api.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &s.repo.table})
				assert.NoError(t, err)
			})
		}
		all.Wait()
	}
}

// serve calls until the store itself serves, and returns the lease and how many calls it did not serve.
func (s *process) serve(entity string, rpm int64) (lease *dynalimit.Lease, failed int) {
	for {
		lease, err := s.limiter.Acquire(s.t.Context(), entity, model, dynalimit.Amounts{"rpm": rpm})
		if err == nil && !lease.Degraded() {
			return lease, failed
		}
		failed++
		wait, _ := dynalimit.RetryAfter(err)
		again, cancel := context.WithTimeout(s.t.Context(), wait+10*time.Millisecond)
		<-again.Done()
		cancel()
	}
}

// Pooled connections die, and the store answers each new one. So the store serves soon,
// whatever the client is, however many connections died, and as each kind of death shows:
// not one try for each dead connection. A take and a give-back that were on their way count
// once, or are in doubt.
func TestDeadConnectionsOfAPoolAreNoOutage(t *testing.T) {
	for name, make := range pooledClients {
		for how, death := range testworld.Deaths {
			for _, idle := range []int{1, 10, 256} {
				if name != "http.Client" && (idle > 10 || death == testworld.Truncated && idle > 1) {
					continue // they cannot close connections: each costs a request of its own
				}
				t.Run(fmt.Sprintf("%s/%s/%d", name, how, idle), func(t *testing.T) {
					t.Parallel()
					s, proxy, fill := onPool(t, make(idle), idle, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}})
					lease, _ := s.serve(userOf(0), 100) // a busy machine answers late
					s.serve(userOf(1), 1)
					fill()
					proxy.KillConnections(death)
					var both sync.WaitGroup
					both.Go(func() {
						if err := lease.Rollback(t.Context()); !errors.Is(err, dynalimit.ErrUnconfirmed) {
							assert.NoError(t, err)
						}
					})
					_, failed := s.serve(userOf(1), 1)
					assert.LessOrEqual(t, failed, 2)
					both.Wait()
					s.recovers()
					doubt := s.limiter.Health().Doubt["rpm"]
					assert.InDelta(t, 2, s.consumed(2, "rpm"), float64(doubt))
					assert.LessOrEqual(t, s.level(userOf(0), "rpm"), int64(1000))
					assert.False(t, s.limiter.Health().Open)
				})
			}
		}
	}
}
