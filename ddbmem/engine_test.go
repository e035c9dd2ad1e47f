package ddbmem_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// engine is a DynamoDB that the conformance tests run against.
type engine struct {
	client  *dynamodb.Client
	streams *dynamodbstreams.Client
}

func (e engine) table(t *testing.T, sorted bool, change ...func(*dynamodb.CreateTableInput)) *string {
	t.Helper()
	name := fmt.Sprintf("conformance-%d-%d", time.Now().UnixNano(), tables.Add(1))
	createTable(t, e.client, name, sorted, change...)
	return &name
}

var tables atomic.Int64

func remoteConfig(t testing.TB, endpoint string) aws.Config {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return aws.Config{
		Region:           "eu-west-1",
		Credentials:      credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:       &http.Client{Transport: transport, Timeout: time.Minute},
		BaseEndpoint:     aws.String(endpoint),
		RetryMaxAttempts: 1,
	}
}

func remoteEngine(t testing.TB, endpoint string) engine {
	cfg := remoteConfig(t, endpoint)
	return engine{dynamodb.NewFromConfig(cfg), dynamodbstreams.NewFromConfig(cfg)}
}

// engineEndpoint is another engine to compare with, "" for none.
func engineEndpoint(t testing.TB) string {
	endpoint := os.Getenv("DYNALIMIT_TEST_ENDPOINT")
	if endpoint == "" {
		t.Log("NOT COMPARED with another engine: DYNALIMIT_TEST_ENDPOINT is not set")
	}
	return endpoint
}

// conform runs a test on ddbmem in process and over HTTP, and on the engine at
// DYNALIMIT_TEST_ENDPOINT if there is one.
func conform(t *testing.T, test func(t *testing.T, e engine)) {
	t.Helper()
	onDDBMem(t, test)
	if endpoint := engineEndpoint(t); endpoint != "" {
		t.Run("other engine", func(t *testing.T) { test(t, remoteEngine(t, endpoint)) })
	}
}

// onDDBMem is conform for what only ddbmem does as DynamoDB does.
func onDDBMem(t *testing.T, test func(t *testing.T, e engine)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		db := ddbmem.New()
		test(t, engine{db.Client(once), db.StreamsClient()})
	})
	t.Run("over HTTP", func(t *testing.T) {
		server := httptest.NewServer(ddbmem.New())
		t.Cleanup(server.Close)
		test(t, remoteEngine(t, server.URL))
	})
}

// wantCode wants an API error with the code, and returns its message.
func wantCode(t *testing.T, code string, err error) string {
	t.Helper()
	var api smithy.APIError
	require.True(t, errors.As(err, &api), "want %s, got %v", code, err)
	require.Equal(t, code, api.ErrorCode(), "%v", err)
	return api.ErrorMessage()
}

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
