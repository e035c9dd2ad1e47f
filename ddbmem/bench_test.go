package ddbmem_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// BenchmarkUpdateItem is a conditional update through the SDK client, most of
// which is the SDK's own work.
func BenchmarkUpdateItem(b *testing.B) {
	client := ddbmem.New().Client()
	_, err := client.CreateTable(b.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String("bench"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		b.Fatal(err)
	}
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String("bench"), Key: item{"PK": str("a")},
		UpdateExpression:          aws.String("ADD #0 :0, #1 :1 SET #2 = :2"),
		ConditionExpression:       aws.String("attribute_not_exists(#0) OR #0 < :3"),
		ExpressionAttributeNames:  map[string]string{"#0": "tk", "#1": "tc", "#2": "rf"},
		ExpressionAttributeValues: item{":0": num(-1), ":1": num(1), ":2": num(1700000000000), ":3": num(1000)},
		ReturnValues:              types.ReturnValueAllNew,
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.UpdateItem(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}
