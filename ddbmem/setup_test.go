package ddbmem_test

import (
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

type (
	item = map[string]types.AttributeValue
	av   = types.AttributeValue
)

func str(s string) av { return &types.AttributeValueMemberS{Value: s} }
func num(n int64) av  { return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)} }

// createTable makes a table with the string key PK, and SK if sorted.
func createTable(t *testing.T, client *dynamodb.Client, name string, sorted bool, change ...func(*dynamodb.CreateTableInput)) {
	t.Helper()
	in := &dynamodb.CreateTableInput{
		TableName:            aws.String(name),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash}},
	}
	if sorted {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("SK"), AttributeType: types.ScalarAttributeTypeS})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String("SK"), KeyType: types.KeyTypeRange})
	}
	for _, f := range change {
		f(in)
	}
	_, err := client.CreateTable(t.Context(), in)
	require.NoError(t, err)
}
