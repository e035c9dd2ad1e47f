package main

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	tableName  = "outage"
	small      = "small" // a user whose limit the callers would exceed
	smallLimit = 100
	share      = .5
	settling   = 30 * time.Second // bounds what follows an outage
)

// suffer takes the store away from callers once.
func suffer(ctx context.Context, s settings, policy dynalimit.UnavailablePolicy, failure string) (*report, error) {
	ctx, cancel := context.WithTimeout(ctx, s.For+2*settling)
	defer cancel()
	store, err := startServer(ctx, s.store)
	if err != nil {
		return nil, err
	}
	defer store.stop()
	w, err := newWire(failure, store)
	if err != nil {
		return nil, err
	}
	defer w.close()
	limiter, err := open(ctx, w.dial(), policy, s.Buckets)
	if err != nil {
		return nil, err
	}
	r := &report{Policy: string(policy), Failure: failure, settings: s}
	c := &callers{limiter: limiter, rest: latency.New()}
	calling, enough := context.WithCancel(ctx)
	defer enough()
	c.start(calling, s)
	pause(ctx, 300*time.Millisecond)
	if err := r.endure(ctx, w, c); err != nil {
		return nil, err
	}
	pause(ctx, 200*time.Millisecond)
	enough()
	c.group.Wait()
	for limiter.Health().WaitingBuckets > 0 && ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond)
	}
	r.doubt(limiter.Health())
	if err := limiter.Close(ctx); err != nil {
		return nil, err
	}
	if r.Charged, err = charged(ctx, w.dial(), s.Buckets); err != nil {
		return nil, err
	}
	r.sum(c)
	return r, ctx.Err()
}

// open makes the table, its limits and its buckets.
func open(ctx context.Context, client *dynamodb.Client, policy dynalimit.UnavailablePolicy, buckets int) (*dynalimit.RateLimiter, error) {
	repo, err := dynalimit.NewRepository(client, tableName, &dynalimit.RepositoryOptions{Principal: "bench"})
	if err != nil {
		return nil, err
	}
	if err := repo.CreateTable(ctx); err != nil {
		return nil, err
	}
	if err := repo.SetSystemLimits(ctx, []dynalimit.Limit{dynalimit.PerDay(limitName, 100_000_000)}, nil); err != nil {
		return nil, err
	}
	if err := repo.SetEntityLimits(ctx, small, "", []dynalimit.Limit{dynalimit.PerDay(limitName, smallLimit)}); err != nil {
		return nil, err
	}
	limiter, err := dynalimit.New(repo, &dynalimit.Options{OnUnavailable: policy, LocalShare: share})
	if err != nil {
		return nil, err
	}
	for b := range buckets + 1 {
		id := small
		if b < buckets {
			id = entity(b)
		}
		lease, err := limiter.Acquire(ctx, id, resource, dynalimit.Amounts{limitName: 1})
		if err != nil {
			return nil, err
		}
		if err := lease.Rollback(ctx); err != nil {
			return nil, err
		}
	}
	return limiter, nil
}

// endure is the outage itself, until the store answers again.
func (r *report) endure(ctx context.Context, w *wire, c *callers) error {
	began := time.Now()
	c.outage(began)
	if err := w.fail(true); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	lease, err := c.limiter.Acquire(within, small, resource, dynalimit.Amounts{limitName: 1})
	cancel()
	r.Deadline = err == nil
	for range 3 * smallLimit {
		if err != nil && r.Policy != string(dynalimit.Local) {
			break
		}
		if _, err := c.limiter.Acquire(ctx, small, resource, dynalimit.Amounts{limitName: 1}); err == nil {
			r.Local++
		}
	}
	if lease != nil {
		r.Local++
	}
	pause(ctx, time.Until(began.Add(r.For)))
	c.outage(time.Time{})
	h, ended := c.limiter.Health(), time.Now()
	r.Probe = max(0, h.NextProbe.Sub(ended))
	if err := w.fail(false); err != nil {
		return err
	}
	for c.limiter.Health().Open && ctx.Err() == nil {
		pause(ctx, time.Millisecond)
	}
	r.Normal = time.Since(ended)
	return ctx.Err()
}

// charged is what the callers' buckets were charged, in whole tokens.
func charged(ctx context.Context, client *dynamodb.Client, buckets int) (sum int64, err error) {
	for b := range buckets {
		got, err := client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(tableName), ConsistentRead: aws.Bool(true),
			Key: schema.NewKeys("").Bucket(entity(b), resource).Attributes(),
		})
		if err != nil {
			return 0, err
		}
		e, err := ledger.Read(got.Item, limitName)
		if err != nil {
			return 0, err
		}
		sum += e.Consumed / 1000
	}
	return sum, nil
}
