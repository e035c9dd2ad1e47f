// Package outage takes the store away from callers and reports the effects. These are the waits of the first
// callers and of the rest, the failures, and whether their usage was charged afterwards. There are 18 cases,
// every policy with every failure:
//
//	go test -run '^$' -bench . -benchtime 1x ./outage            # 5 s each
//	go test -run '^$' -bench Outage/local/hang ./outage -for 20s
//	go test -run '^$' -bench Pools -benchtime 1x ./outage        # 48 pools of dead connections, 5 times each
//
// The store is ddbmem in a process of its own, behind a real HTTP client on loopback. A hang stops that
// process.
package outage

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
)

const (
	small      = "small" // a user with a limit that the callers would exceed
	smallLimit = 100
	share      = .5
	settling   = 30 * time.Second // bounds the time after an outage
)

// settings describe the callers and the length of the outage.
type settings struct {
	callers, buckets int
	lasting          time.Duration
	every            time.Duration // between two calls of a caller
}

// outcome is the effect of one outage on the callers.
type outcome struct {
	used, charged, doubt int64 // whole tokens: admitted, counted by the buckets, perhaps charged
	failed               int
	firstError           error
	// values are named in docs/performance.md.
	values program.Values
}

// runOutage runs callers under a policy, makes their store fail for s.lasting, and returns the outcome. It
// waits until the limiter has written everything.
func runOutage(ctx context.Context, s settings, policy dynalimit.UnavailablePolicy, failure string) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.lasting+2*settling)
	defer cancel()
	w, err := newWire(ctx, failure)
	if err != nil {
		return nil, err
	}
	defer w.close()
	limiter, err := openLimiter(ctx, w.dial(), policy, s.buckets)
	if err != nil {
		return nil, err
	}
	c := &callers{limiter: limiter, rest: latency.New()}
	calling, enough := context.WithCancel(ctx)
	defer enough()
	c.startCallers(calling, s)
	program.Pause(ctx, 300*time.Millisecond)
	values, err := measureOutage(ctx, s, w, c, policy)
	if err != nil {
		return nil, err
	}
	program.Pause(ctx, 200*time.Millisecond)
	enough()
	c.group.Wait()
	for limiter.Health().WaitingBuckets > 0 && ctx.Err() == nil {
		program.Pause(ctx, 20*time.Millisecond)
	}
	o := &outcome{used: c.used, doubt: limiter.Health().Doubt[subject.Limit], failed: c.failed, firstError: c.firstError, values: values}
	if err := limiter.Close(ctx); err != nil {
		return nil, err
	}
	if o.charged, err = sumCharged(ctx, w.dial(), s.buckets); err != nil {
		return nil, err
	}
	o.setValues(c)
	return o, ctx.Err()
}

// setValues sets the values of o from the callers' times and counts. The value untold is the difference between
// the used and the charged tokens, less the doubt, at least 0.
func (o *outcome) setValues(c *callers) {
	rest := c.rest.Summary()
	for unit, v := range map[string]int64{
		"first-ms":  c.first.Milliseconds(),
		"p50-us":    rest.P50.Microseconds(),
		"p99-us":    rest.P99.Microseconds(),
		"later":     rest.Count,
		"failed":    int64(c.failed),
		"unhelpful": int64(c.unhelpful),
		"used":      o.used,
		"doubt":     o.doubt,
		"untold":    max(0, max(o.used-o.charged, o.charged-o.used)-o.doubt),
	} {
		o.values[unit] = float64(v)
	}
}

// openLimiter creates the table, an ample limit for the callers' buckets and a small one, and makes the
// buckets. It returns a limiter with the policy.
func openLimiter(ctx context.Context, client *dynamodb.Client, policy dynalimit.UnavailablePolicy, buckets int) (*dynalimit.RateLimiter, error) {
	if err := subject.CreateBuckets(ctx, client, dynalimit.PerDay(subject.Limit, 100_000_000), buckets, 0); err != nil {
		return nil, err
	}
	limiter, repo, err := subject.Open(client, &dynalimit.Options{OnUnavailable: policy, LocalShare: share})
	if err != nil {
		return nil, err
	}
	if err := admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: small}, []dynalimit.Limit{dynalimit.PerDay(subject.Limit, smallLimit)}); err != nil {
		return nil, err
	}
	for b := range buckets {
		if err := subject.CreateBucket(ctx, limiter, subject.Entity(b), 0); err != nil {
			return nil, err
		}
	}
	return limiter, subject.CreateBucket(ctx, limiter, small, 0)
}

// measureOutage makes the store fail for s.lasting, then waits until the limiter is normal again. Its values
// count the refusals of a caller that waits 5 s and the calls admitted by a small limit, and have the times
// until the limiter was normal: from the end of the outage and from the next probe.
func measureOutage(ctx context.Context, s settings, w *wire, c *callers, policy dynalimit.UnavailablePolicy) (program.Values, error) {
	began := time.Now()
	c.setOutage(began)
	if err := w.fail(true); err != nil {
		return nil, err
	}
	values := program.Values{"refused-5s": 0, "small": 0}
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	_, err := c.limiter.Acquire(within, small, subject.Resource, subject.One)
	cancel()
	if err == nil {
		values["small"]++
	} else {
		values["refused-5s"]++
	}
	for range 3 * smallLimit {
		if err != nil && policy != dynalimit.Local {
			break
		}
		if _, err := c.limiter.Acquire(ctx, small, subject.Resource, subject.One); err == nil {
			values["small"]++
		}
	}
	program.Pause(ctx, time.Until(began.Add(s.lasting)))
	c.setOutage(time.Time{})
	h, ended := c.limiter.Health(), time.Now()
	probe := max(0, h.NextProbe.Sub(ended))
	if err := w.fail(false); err != nil {
		return nil, err
	}
	for c.limiter.Health().Open && ctx.Err() == nil {
		program.Pause(ctx, time.Millisecond)
	}
	values["normal-ms"] = float64(time.Since(ended).Milliseconds())
	values["after-probe-ms"] = values["normal-ms"] - float64(probe.Milliseconds())
	return values, ctx.Err()
}

// sumCharged returns the sum charged to the callers' buckets, in whole tokens.
func sumCharged(ctx context.Context, client *dynamodb.Client, buckets int) (sum int64, err error) {
	all, err := subject.Read(ctx, client, buckets)
	for _, e := range all {
		sum += e.Consumed / 1000
	}
	return sum, err
}
