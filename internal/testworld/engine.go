package testworld

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// Endpoint is the variable that names a DynamoDB to test on, besides ddbmem.
const Endpoint = "DYNALIMIT_TEST_ENDPOINT"

// NewClient makes an SDK client of an engine.
type NewClient = func(optFns ...func(*dynamodb.Options)) *dynamodb.Client

// RunOnEngines runs test on ddbmem, and also on the endpoint that DYNALIMIT_TEST_ENDPOINT names, if it is set.
// There db, for faults, meter and writes, is nil.
func RunOnEngines(t *testing.T, test func(t *testing.T, db *ddbmem.DB, client NewClient)) {
	t.Helper()
	t.Run("ddbmem", func(t *testing.T) {
		db := NewMem(t)
		test(t, db, db.Client)
	})
	if endpoint := os.Getenv(Endpoint); endpoint != "" {
		t.Run("endpoint", func(t *testing.T) { test(t, nil, newRemote(t, endpoint)) })
	}
}

// NewMem returns an empty ddbmem, which the end of the test closes. It also works in a bubble of virtual time.
func NewMem(t testing.TB, opts ...ddbmem.Option) *ddbmem.DB {
	t.Helper()
	db := ddbmem.New(opts...)
	t.Cleanup(db.Close)
	return db
}

// newRemote returns a maker of clients for the DynamoDB at endpoint. They share connections, which the end of
// the test closes.
func newRemote(t *testing.T, endpoint string) NewClient {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 100 * time.Millisecond} // an unused connection ends too
	t.Cleanup(transport.CloseIdleConnections)
	return func(optFns ...func(*dynamodb.Options)) *dynamodb.Client {
		return dynamodb.New(dynamodb.Options{
			BaseEndpoint: aws.String(endpoint),
			Region:       "us-east-1",
			Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
			HTTPClient:   &http.Client{Transport: transport, Timeout: time.Minute},
		}, optFns...)
	}
}

// lastTable numbers the tables, for an endpoint is shared by all tests.
var lastTable atomic.Int64

// NewTableName returns a name of a table that no test has used before. It makes no table.
func NewTableName() string { return fmt.Sprintf("limits-%d-%d", os.Getpid(), lastTable.Add(1)) }

// DeleteAfter deletes a table when the test ends, and fails the test if it cannot. It does nothing for ddbmem
// (db is not nil).
func DeleteAfter(t testing.TB, db *ddbmem.DB, client NewClient, table string) {
	if db != nil {
		return
	}
	t.Cleanup(func() {
		_, err := client().DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table})
		require.NoError(t, err)
	})
}
