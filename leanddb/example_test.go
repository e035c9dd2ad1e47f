package leanddb_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/leanddb"
)

func ExampleNew() {
	ctx := context.Background()
	// In production the client is that of awsclient.New(ctx, nil), or one of your own.
	client := ddbmem.New().Client(func(o *dynamodb.Options) {
		o.Credentials = credentials.NewStaticCredentialsProvider("key", "secret", "")
	})
	repo, err := dynalimit.NewRepository(leanddb.New(client), "limits", nil)
	if err != nil {
		panic(err)
	}
	if err := repo.CreateTable(ctx); err != nil {
		panic(err)
	}
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(ctx)

	lease, err := limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(lease.Statuses()[0].Remaining, "of 10 remain")
	// Output: 9 of 10 remain
}
