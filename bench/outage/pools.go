package outage

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// poolRuns is the number of runs of each case. Its values are medians.
const poolRuns = 5

// poolCase is a pool of idle connections that die at once, while new ones work.
type poolCase struct {
	policy        dynalimit.UnavailablePolicy
	death         testworld.Death
	idle, callers int
}

// measure runs a case five times and returns the median of each value.
func (c poolCase) measure(ctx context.Context) (program.Values, error) {
	all := map[string][]float64{}
	for range poolRuns {
		values, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		for unit, v := range values {
			all[unit] = append(all[unit], v)
		}
	}
	medians := program.Values{}
	for unit, values := range all {
		slices.Sort(values)
		medians[unit] = values[len(values)/2]
	}
	return medians, nil
}

// run makes all pooled connections die once, and waits until the store has served every caller. Its values
// are that time, the failed calls, and the calls that the policy admitted.
func (c poolCase) run(ctx context.Context) (program.Values, error) {
	db := ddbmem.New()
	defer db.Close()
	endpoint, end, err := program.Serve(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { _ = end() }()
	proxy, err := testworld.NewProxy(ctx, strings.TrimPrefix(endpoint, "http://"))
	if err != nil {
		return nil, err
	}
	defer proxy.Close()
	api := program.NewClient(proxy.Endpoint(), awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = c.idle }))
	if err := subject.CreateBuckets(ctx, db.Client(), dynalimit.PerDay(subject.Limit, 100_000_000), c.callers, 0); err != nil {
		return nil, err
	}
	limiter, _, err := subject.Open(api, &dynalimit.Options{OnUnavailable: c.policy, LocalShare: share})
	if err != nil {
		return nil, err
	}
	defer func() { _ = limiter.Close(context.WithoutCancel(ctx)) }()
	for i := range c.callers {
		if err := subject.CreateBucket(ctx, limiter, subject.Entity(i), 0); err != nil {
			return nil, err
		}
	}
	fillPool(ctx, db, api, c.idle)
	proxy.KillConnections(c.death)
	var mu sync.Mutex
	var group sync.WaitGroup
	began, failed, byPolicy := time.Now(), 0, 0
	for i := range c.callers {
		group.Go(func() {
			for ctx.Err() == nil {
				lease, err := limiter.Acquire(ctx, subject.Entity(i), subject.Resource, subject.One)
				if err == nil && !lease.Degraded() {
					return
				}
				mu.Lock()
				if err != nil {
					failed++
				} else {
					byPolicy++
				}
				mu.Unlock()
				program.Pause(ctx, 10*time.Millisecond)
			}
		})
	}
	group.Wait()
	return program.Values{"served-ms": program.Ms(time.Since(began)), "failed": float64(failed), "by-policy": float64(byPolicy)}, ctx.Err()
}

// fillPool makes n pooled connections, each by a slow request, and leaves them idle.
func fillPool(ctx context.Context, db *ddbmem.DB, api *dynamodb.Client, n int) {
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 100 * time.Millisecond} })
	defer db.SetFaults(nil)
	var group sync.WaitGroup
	for range n {
		group.Go(func() { _, _ = api.ListTables(ctx, &dynamodb.ListTablesInput{}) })
	}
	group.Wait()
}

// String names the case in the benchmark's output.
func (c poolCase) String() string {
	return fmt.Sprintf("%s/%s/idle=%d/callers=%d", c.policy, map[testworld.Death]string{testworld.Forgotten: "forgotten", testworld.Reset: "reset"}[c.death], c.idle, c.callers)
}
