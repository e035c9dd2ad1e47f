package denials_test

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator/denials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// What a limiter denies is counted in the process, and added to the table once a minute.
func Example() {
	ctx := context.Background()
	client := ddbmem.New().Client() // dynamodb.NewFromConfig(cfg) in a service
	repo, _ := dynalimit.NewRepository(client, "limits", nil)
	_ = repo.CreateTable(ctx)

	recorder, err := denials.New(client, "limits", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := dynalimit.New(repo, &dynalimit.Options{
		Limits:   []dynalimit.Limit{dynalimit.PerDay("rpd", 2)},
		Observer: recorder, // denials.Options.Next is told everything too
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	denied := 0
	for range 5 {
		if _, err := limiter.Acquire(ctx, "key-1", "gpt-4", dynalimit.Amounts{"rpd": 1}); err != nil {
			denied++
		}
	}
	_ = limiter.Close(ctx)
	_ = recorder.Close(ctx) // adds what the last minute left

	item, _ := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: "ENTITY#key-1"},
		"SK": &types.AttributeValueMemberS{Value: "#DENIED#gpt-4#" + time.Now().UTC().Truncate(time.Hour).Format(time.RFC3339)},
	}})
	fmt.Println("denied", denied, "counted", item.Item["x_rpd"].(*types.AttributeValueMemberN).Value)
	// Output: denied 3 counted 3
}
