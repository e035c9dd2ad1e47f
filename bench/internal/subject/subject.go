// Package subject makes the buckets of the benchmarks and reads their stored items.
package subject

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/bench/internal/ledger"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The buckets' table, resource and limit.
const (
	Table    = "limits"
	Resource = "model"
	Limit    = "calls"
)

// One is the amounts of a call.
var One = dynalimit.Amounts{Limit: 1}

// Entity returns the entity of a bucket, by its number.
func Entity(bucket int) string { return fmt.Sprintf("entity-%d", bucket) }

// Open returns a limiter with options o, and its repository of the benchmark's table. o may be nil.
func Open(client dynalimit.DynamoDB, o *dynalimit.Options) (*dynalimit.RateLimiter, *dynalimit.Repository, error) {
	repo, err := dynalimit.NewRepository(client, Table, &dynalimit.RepositoryOptions{Principal: "bench"})
	if err != nil {
		return nil, nil, err
	}
	limiter, err := dynalimit.New(repo, o)
	return limiter, repo, err
}

// CreateBuckets creates the table, a limit for everybody, and the given number of full buckets. If taken is not
// 0, it takes so many tokens from each.
func CreateBuckets(ctx context.Context, client dynalimit.DynamoDB, limit dynalimit.Limit, buckets int, taken int64) error {
	limiter, repo, err := Open(client, nil)
	if err != nil {
		return err
	}
	if err := repo.CreateTable(ctx); err != nil {
		return err
	}
	if err := admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: Resource}, []dynalimit.Limit{limit}); err != nil {
		return err
	}
	for b := range buckets {
		if err := CreateBucket(ctx, limiter, Entity(b), taken); err != nil {
			return err
		}
	}
	return limiter.Close(ctx)
}

// CreateBucket makes the entity's bucket by a call that takes so many tokens from it. 0 leaves it full.
func CreateBucket(ctx context.Context, limiter *dynalimit.RateLimiter, entity string, taken int64) error {
	lease, err := limiter.Acquire(ctx, entity, Resource, dynalimit.Amounts{Limit: max(1, taken)})
	if err != nil || taken > 0 {
		return err
	}
	return lease.Rollback(ctx)
}

// Read reads the stored items of the buckets with the numbers 0 to buckets-1, and returns an entry for each, in
// order, with amounts in millitokens.
func Read(ctx context.Context, client *dynamodb.Client, buckets int) ([]ledger.Entry, error) {
	out := make([]ledger.Entry, buckets)
	for b := range out {
		got, err := client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(Table), ConsistentRead: aws.Bool(true),
			Key: schema.NewKeys("").Bucket(Entity(b), Resource).Attributes(),
		})
		if err != nil {
			return nil, err
		}
		if out[b], err = ledger.Read(got.Item, Limit); err != nil {
			return nil, err
		}
	}
	return out, nil
}
