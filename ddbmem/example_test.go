package ddbmem_test

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// counters makes a table with one string key.
func counters(ctx context.Context, client *dynamodb.Client) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            aws.String("counters"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash}},
	})
	return err
}

func increment(ctx context.Context, client *dynamodb.Client) (string, error) {
	out, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 aws.String("counters"),
		Key:                       map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "visits"}},
		UpdateExpression:          aws.String("ADD hits :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
		ReturnValues:              types.ReturnValueUpdatedNew,
	})
	if err != nil {
		return "", err
	}
	return out.Attributes["hits"].(*types.AttributeValueMemberN).Value, nil
}

// The client is the SDK's own: code that takes a *dynamodb.Client runs unchanged.
func Example() {
	ctx := context.Background()
	client := ddbmem.New().Client()
	if err := counters(ctx, client); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		hits, err := increment(ctx, client)
		fmt.Println(hits, err)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
}

// A lost answer makes the SDK repeat a write that landed.
func ExampleDB_SetFaults() {
	ctx := context.Background()
	db := ddbmem.New()
	client := db.Client()
	if err := counters(ctx, client); err != nil {
		fmt.Println(err)
		return
	}
	lost := false
	db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if lost || r.Operation != "UpdateItem" {
			return ddbmem.Fault{}
		}
		lost = true
		return ddbmem.Fault{Lose: true}
	})
	hits, err := increment(ctx, client)
	fmt.Println("counted", hits, "for one call:", err)
	// Output: counted 2 for one call: <nil>
}

// The meter tells what a piece of code costs.
func ExampleDB_Meter() {
	ctx := context.Background()
	db := ddbmem.New()
	client := db.Client()
	if err := counters(ctx, client); err != nil {
		fmt.Println(err)
		return
	}
	before := db.Meter()
	if _, err := increment(ctx, client); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(db.Meter().Sub(before))
	// Output: UpdateItem: 1 requests, 0 RCU, 1 WCU, 0 refused
}

// With a clock of one's own, items expire when the test says so.
func ExampleDB_ExpireNow() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	client := db.Client()
	if err := counters(ctx, client); err != nil {
		fmt.Println(err)
		return
	}
	_, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               aws.String("counters"),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("until"), Enabled: aws.Bool(true)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("counters"), Item: map[string]types.AttributeValue{
		"PK":    &types.AttributeValueMemberS{Value: "session"},
		"until": &types.AttributeValueMemberN{Value: fmt.Sprint(now.Add(time.Hour).Unix())},
	}})
	fmt.Println(db.ExpireNow(), err)
	now = now.Add(2 * time.Hour)
	fmt.Println(db.ExpireNow())
	// Output:
	// 0 <nil>
	// 1
}
