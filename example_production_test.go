package dynalimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/awsclient"
	"github.com/dynalimit/dynalimit/ddbmem"
)

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
