package dynalimit

import (
	"context"
	"errors"
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
	"github.com/dynalimit/dynalimit/internal/problem"
)

// endpointVariable names a DynamoDB to test on, besides ddbmem.
const endpointVariable = "DYNALIMIT_TEST_ENDPOINT"

// engine is a DynamoDB to test on.
type engine struct {
	// db gives faults, meter and writes; nil for an engine behind an endpoint.
	db *ddbmem.DB
	// client makes SDK clients of the engine.
	client func(optFns ...func(*dynamodb.Options)) *dynamodb.Client
}

// testEngines runs test on ddbmem, and on the endpoint when one is given.
func testEngines(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Helper()
	t.Run("ddbmem", func(t *testing.T) { test(t, memEngine(t)) })
	if endpoint := os.Getenv(endpointVariable); endpoint != "" {
		t.Run("endpoint", func(t *testing.T) { test(t, remoteEngine(t, endpoint)) })
	}
}

// memEngine is an empty ddbmem; also for tests in a bubble of virtual time.
func memEngine(t *testing.T, opts ...ddbmem.Option) *engine {
	t.Helper()
	db := ddbmem.New(opts...)
	t.Cleanup(db.Close)
	return &engine{db: db, client: db.Client}
}

func remoteEngine(t *testing.T, endpoint string) *engine {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 100 * time.Millisecond} // one that is dialled for nobody ends too
	t.Cleanup(transport.CloseIdleConnections)
	return &engine{client: func(optFns ...func(*dynamodb.Options)) *dynamodb.Client {
		return dynamodb.New(dynamodb.Options{
			BaseEndpoint: aws.String(endpoint),
			Region:       "us-east-1",
			Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
			HTTPClient:   &http.Client{Transport: transport, Timeout: time.Minute},
		}, optFns...)
	}}
}

// lastTable numbers the tables, for an endpoint is shared by all tests.
var lastTable atomic.Int64

// newTable is a name no test used before.
func newTable() string {
	return fmt.Sprintf("limits-%d-%d", os.Getpid(), lastTable.Add(1))
}

// repository is a repository on a new table of the engine.
func (e *engine) repository(t *testing.T, opts *RepositoryOptions) *Repository {
	t.Helper()
	r := e.open(t, newTable(), opts)
	require.NoError(t, r.CreateTable(t.Context()))
	e.deleteAfter(t, r.table)
	return r
}

// tester is who makes the changes of tests.
const tester = "tester"

// open is a repository on a table of the engine, which need not exist.
func (e *engine) open(t *testing.T, table string, opts *RepositoryOptions) *Repository {
	t.Helper()
	r, err := NewRepository(e.client(), table, opts)
	require.NoError(t, err)
	return r.As(tester)
}

// namespaced is a repository on a table in a namespace, which is registered if it is not.
func (e *engine) namespaced(t *testing.T, table, name string, opts *RepositoryOptions) *Repository {
	t.Helper()
	bare, bound := RepositoryOptions{}, RepositoryOptions{}
	if opts != nil {
		bare, bound = *opts, *opts
	}
	bare.Namespace, bound.Namespace = "", name
	if err := e.open(t, table, &bare).RegisterNamespace(t.Context(), name); !errors.Is(err, problem.ErrExists) {
		require.NoError(t, err)
	}
	return e.open(t, table, &bound)
}

// deleteAfter removes a table from a shared engine when the test ends.
func (e *engine) deleteAfter(t *testing.T, table string) {
	if e.db != nil {
		return
	}
	t.Cleanup(func() {
		_, err := e.client().DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table})
		require.NoError(t, err)
	})
}
