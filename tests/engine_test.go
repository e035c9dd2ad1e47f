package tests

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

func TestMain(m *testing.M) {
	if os.Getenv(testworld.Endpoint) == "" {
		fmt.Fprintln(os.Stderr, "NOTE: "+testworld.Endpoint+" is not set: these tests run on ddbmem alone, on no third-party engine (make test-engine runs them on one)")
	}
	goleak.VerifyTestMain(m)
}

// What tests of other packages have too.
var (
	on, firstOf, cancelled = testworld.On, testworld.FirstOf, testworld.Cancelled
	record, assertGolden   = testworld.Record, testworld.AssertGolden
)

// engine is a DynamoDB to test on.
type engine struct {
	// db gives faults, meter and writes; nil for an engine behind an endpoint.
	db *ddbmem.DB
	// client makes SDK clients of the engine.
	client testworld.NewClient
}

// testEngines runs test on ddbmem, and on the endpoint when one is given.
func testEngines(t *testing.T, test func(t *testing.T, e *engine)) {
	t.Helper()
	testworld.Engines(t, func(t *testing.T, db *ddbmem.DB, client testworld.NewClient) { test(t, &engine{db, client}) })
}

// memEngine is an empty ddbmem; also for tests in a bubble of virtual time.
func memEngine(t *testing.T, opts ...ddbmem.Option) *engine {
	t.Helper()
	db := testworld.Mem(t, opts...)
	return &engine{db, db.Client}
}

// deleteAfter removes a table from a shared engine when the test ends.
func (e *engine) deleteAfter(t *testing.T, table string) {
	testworld.DeleteAfter(t, e.db, e.client, table)
}

// repository is a repository on a new table of the engine.
func (e *engine) repository(t *testing.T, opts *dynalimit.RepositoryOptions) *repository {
	t.Helper()
	r := e.open(t, testworld.NewTable(), opts)
	require.NoError(t, r.CreateTable(t.Context()))
	e.deleteAfter(t, r.table)
	return r
}

// tester is who makes the changes of tests.
const tester = "tester"

// open is a repository on a table of the engine, which need not exist.
func (e *engine) open(t *testing.T, table string, opts *dynalimit.RepositoryOptions) *repository {
	t.Helper()
	r, err := openRepository(e.client(), table, opts)
	require.NoError(t, err)
	return r.As(tester)
}

// namespaced is a repository on a table in a namespace, which is registered if it is not.
func (e *engine) namespaced(t *testing.T, table, name string, opts *dynalimit.RepositoryOptions) *repository {
	t.Helper()
	bare, bound := dynalimit.RepositoryOptions{}, dynalimit.RepositoryOptions{}
	if opts != nil {
		bare, bound = *opts, *opts
	}
	bare.Namespace, bound.Namespace = "", name
	if err := e.open(t, table, &bare).admin().Namespaces.Register(t.Context(), name); !errors.Is(err, problem.ErrExists) {
		require.NoError(t, err)
	}
	return e.open(t, table, &bound)
}
