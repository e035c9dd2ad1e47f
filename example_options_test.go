package dynalimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/awsclient"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// What applies to an entity, where it comes from, and what is not in force because of it.
func ExampleRepository_ResolveLimits() {
	ctx := context.Background()
	_, repo := newLimiter()
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 60), dynalimit.PerMinute("tpm", 90_000)}))
	must(admin.New(repo).Limits.SetConfig(ctx, admin.Scope{Plan: "pro"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 600)}, Only: true}))
	check(admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key-1", Plan: "pro"}))

	applies := must(repo.ResolveLimits(ctx, "key-1", "gpt-4"))
	fmt.Println(applies.Source, applies.Plan, applies.Limits[0].Name, applies.Limits[0].Capacity)
	fmt.Println("hidden:", applies.Hidden[0].Name, "of source", applies.Hidden[0].Source)
	// Output:
	// plan_default pro rpm 600
	// hidden: tpm of source resource
}

// A limit over all models: each is in the group "all", which has limits of its own.
func ExampleRateLimiter_Acquire_group() {
	ctx := context.Background()
	limiter, repo := newLimiter()
	limits := admin.New(repo).Limits
	check(limits.Set(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 60_000)}))
	for _, model := range []string{"gpt-4", "gpt-5"} {
		must(limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{"all"}}))
	}
	check(limits.Set(ctx, admin.Scope{Everyone: true, Resource: "all"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 100_000)}))

	must(limiter.Acquire(ctx, "team-a", "gpt-4", dynalimit.Amounts{"tpm": 60_000}))
	_, err := limiter.Acquire(ctx, "team-a", "gpt-5", dynalimit.Amounts{"tpm": 60_000})
	var exceeded *dynalimit.LimitExceededError
	if errors.As(err, &exceeded) {
		fmt.Println(exceeded.Primary().Resource, exceeded.Primary().Remaining)
	}
	// Output:
	// all 40000
}

// degradedLeases writes a line in CloudWatch's embedded metric format
// for each call that was admitted without its buckets. Where a service's standard output is
// collected by CloudWatch, each line counts in the metric that the alarm of the templates
// is on: DegradedLeases of the table, in the namespace dynalimit.
type degradedLeases struct {
	out   io.Writer
	table string
	now   func() time.Time
}

func (d degradedLeases) acquireEnd(_ context.Context, e observe.AcquireEnd) {
	if !e.Degraded {
		return
	}
	line := must(json.Marshal(map[string]any{
		"TableName": d.table, "DegradedLeases": 1,
		"_aws": map[string]any{
			"Timestamp": d.now().UnixMilli(),
			"CloudWatchMetrics": []any{map[string]any{
				"Namespace": "dynalimit", "Dimensions": [][]string{{"TableName"}},
				"Metrics": []any{map[string]string{"Name": "DegradedLeases", "Unit": "Count"}},
			}},
		},
	}))
	_, _ = fmt.Fprintf(d.out, "%s\n", line) // one write, so that lines do not mix
}

// A service publishes how many calls were admitted because DynamoDB did not answer.
func ExampleOptions_metrics() {
	ctx := context.Background()
	db := ddbmem.New()
	repo := must(dynalimit.NewRepository(db.Client(), "limits", standingStill))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{
		Limits:        []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)},
		OnUnavailable: dynalimit.Allow, Timeout: 2 * time.Second,
		Observer: observe.Observer{AcquireEnd: degradedLeases{os.Stdout, repo.Table(), standingStill.Now}.acquireEnd},
	}))
	must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1}))
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
	defer func() { db.SetFaults(nil); check(limiter.Close(ctx)) }()
	must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1}))
	// Output:
	// {"DegradedLeases":1,"TableName":"limits","_aws":{"CloudWatchMetrics":[{"Dimensions":[["TableName"]],"Metrics":[{"Name":"DegradedLeases","Unit":"Count"}],"Namespace":"dynalimit"}],"Timestamp":1772442000000}}
}

// A busy bucket is debited ahead of its calls, most of which then cost no request.
func ExampleOptions_prefetch() {
	ctx := context.Background()
	db := ddbmem.New()
	repo := must(dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"}))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{
		Limits:            []dynalimit.Limit{dynalimit.PerMinute("rpm", 600_000)},
		PrefetchResources: map[string]time.Duration{"gpt-4": 500 * time.Millisecond}, // exact on all others
	}))

	before := db.Meter()
	for range 2_000 {
		must(limiter.Acquire(ctx, "everybody", "gpt-4", dynalimit.Amounts{"rpm": 1}))
	}
	fmt.Println("a request for every ten calls, or fewer:", db.Meter().Sub(before).Requests() <= 200)
	check(limiter.Close(ctx)) // what was not used is taken off the counter
	// Output: a request for every ten calls, or fewer: true
}

// newProduction is a service's limiter. client is what awsclient.New(ctx, nil) returns: it has
// the region and the credentials of the environment.
func newProduction(client *dynamodb.Client, processes int) (*dynalimit.RateLimiter, error) {
	repo, err := dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{
		RequestTimeout: time.Second, // of one request; its connection is given up then
		ConfigTTL:      time.Minute, // a changed limit is in force everywhere after this
		Logger:         slog.Default(),
	})
	if err != nil {
		return nil, err
	}
	return dynalimit.New(repo, &dynalimit.Options{
		OnUnavailable: dynalimit.Local,         // DynamoDB does not answer: go on within this process's part
		LocalShare:    1 / float64(processes),  // of the limits as last known
		Timeout:       1500 * time.Millisecond, // the most that one call spends on DynamoDB
		Logger:        slog.Default(),
	})
}

// A service's limiter says whether it is ready, and charges what it owes before it
// ends.
func ExampleRateLimiter_Close() {
	ctx := context.Background()
	cfg := aws.Config{Region: "eu-central-1", HTTPClient: ddbmem.New(), Credentials: aws.AnonymousCredentials{}}
	limiter := must(newProduction(awsclient.FromConfig(cfg), 20))
	fmt.Println("ready:", limiter.Health().Ready) // for a readiness probe

	// On SIGTERM, when the server has answered its last request:
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	check(limiter.Close(ctx))
	_, err := limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1})
	fmt.Println(err)
	// Output:
	// ready: true
	// dynalimit: the limiter is closed; make a new one with New
}

// The record of user-7 is made elsewhere, or not at all. The token of its request names its team.
func ExampleWithParent() {
	ctx := context.Background()
	limiter, repo := newLimiter(dynalimit.PerMinute("tpm", 10_000))
	check(admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "team-a"}))
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: "team-a"}, []dynalimit.Limit{dynalimit.PerMinute("tpm", 900)}))

	lease, err := limiter.Acquire(ctx, "user-7", "gpt-4", dynalimit.Amounts{"tpm": 500},
		dynalimit.WithParent("team-a"), dynalimit.WithPlan("pro"))
	check(err)
	for _, s := range lease.Statuses() {
		fmt.Println(s.EntityID, s.Remaining)
	}
	// Output:
	// user-7 9500
	// team-a 400
}

// A batch call leaves a fifth of the limit to interactive calls.
func ExampleWithBatch() {
	ctx := context.Background()
	limiter, _ := newLimiter(dynalimit.PerMinute("tpm", 10_000))

	lease := must(limiter.Wait(ctx, "team-a", "gpt-4", dynalimit.Amounts{"tpm": 2000}, dynalimit.WithBatch()))
	fmt.Println("a batch call can take", lease.Statuses()[0].Remaining, "more")
	fmt.Println("an interactive one", must(limiter.Check(ctx, "team-a", "gpt-4", nil)).Available()["tpm"])
	// Output:
	// a batch call can take 6000 more
	// an interactive one 8000
}
