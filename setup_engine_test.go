package dynalimit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
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
	on, firstOf, cancelled = testworld.FaultOn, testworld.FaultOnFirst, testworld.CancelledError
	record, assertGolden   = testworld.NewRecorder, testworld.AssertGolden
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
	testworld.RunOnEngines(t, func(t *testing.T, db *ddbmem.DB, client testworld.NewClient) { test(t, &engine{db, client}) })
}

// memEngine is an empty ddbmem; also for tests in a bubble of virtual time.
func memEngine(t *testing.T, opts ...ddbmem.Option) *engine {
	t.Helper()
	db := testworld.NewMem(t, opts...)
	return &engine{db, db.Client}
}

// deleteAfter removes a table from a shared engine when the test ends.
func (e *engine) deleteAfter(t *testing.T, table string) {
	testworld.DeleteAfter(t, e.db, e.client, table)
}

// repository is a repository on a new table of the engine.
func (e *engine) repository(t *testing.T, opts *dynalimit.RepositoryOptions) *repository {
	t.Helper()
	r := e.open(t, testworld.NewTableName(), opts)
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

func requireInvalid(t *testing.T, err error, field string) *dynalimit.ValidationError {
	t.Helper()
	var invalid *dynalimit.ValidationError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, field, invalid.Field)
	assert.NotEmpty(t, invalid.Reason)
	assert.Contains(t, err.Error(), field)
	return invalid
}

func requireUnconfirmed(t *testing.T, err error, want dynalimit.Amounts) *dynalimit.UnconfirmedError {
	t.Helper()
	var unconfirmed *dynalimit.UnconfirmedError
	require.ErrorAs(t, err, &unconfirmed)
	require.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
	require.ErrorIs(t, err, dynalimit.ErrUnavailable, "for want of an answer")
	assert.Equal(t, want, unconfirmed.Amounts)
	return unconfirmed
}

// holders are the entities and limits of statuses, in their order.
func holders(statuses []dynalimit.LimitStatus) []string {
	var out []string
	for _, s := range statuses {
		out = append(out, s.EntityID+" "+s.Limit.Name)
	}
	return out
}

// limitsAt are the limits that a source has.
func limitsAt(c admin.LimitConfig, err error) ([]dynalimit.Limit, error) { return c.Limits, err }

// availableOf is what a report says is available.
func availableOf(r *dynalimit.Report, err error) (dynalimit.Amounts, error) {
	if err != nil {
		return nil, err
	}
	return r.Available(), nil
}

func second[T any](_ T, err error) error { return err }

// partition lists the keys of everything an entity owns.
func partition(t *testing.T, r *repository, entity string) []schema.Key {
	t.Helper()
	keys, err := r.store.Keys(t.Context(), table.Query{Op: "test", Hash: schema.PK, Value: r.keys.Entity(entity), Prefix: "#"})
	require.NoError(t, err)
	return keys
}

func put(t *testing.T, r *repository, items ...schema.Item) {
	t.Helper()
	for _, item := range items {
		_, err := r.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.table, Item: item})
		require.NoError(t, err)
	}
}

// numberOf is 0 for an attribute that is absent.
func numberOf(item schema.Item, name string) int64 {
	v, ok := item[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// writes are the requests among a meter's that write a bucket.
func writes(m ddbmem.Meter) int64 {
	return m.Operations["UpdateItem"].Requests + m.Operations["PutItem"].Requests + m.Operations["TransactWriteItems"].Requests
}

var oneLimit = []dynalimit.Limit{{Name: "a-b.c_d", Capacity: 1, Burst: 2, RefillAmount: 3, RefillPeriod: 4 * time.Second}}

// brokenWire does something to the requests that match: on any engine.
type brokenWire struct {
	next  aws.HTTPClient
	match func(operation string, body []byte) bool
	// lose executes the request and loses its answer; drop does not execute it.
	// unsent says that no connection is made.
	lose, drop, unsent bool
	// refuse answers with this error code instead of executing it.
	refuse string
	// after, if set, is called once the request has executed.
	after func()

	mu   sync.Mutex
	left int // how many times; below 0 for ever
	hits int
}

// times arms the fault for the next n requests that match.
func (f *brokenWire) times(n int) *brokenWire {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.hits = n, 0
	return f
}

func (f *brokenWire) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *brokenWire) strikes(operation string, body []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 || f.match != nil && !f.match(operation, body) {
		return false
	}
	f.left--
	f.hits++
	return true
}

var errBroken = errors.New("connection reset by the test")

// Do implements aws.HTTPClient.
func (f *brokenWire) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	if !f.strikes(operationOf(request), body) {
		return f.next.Do(request)
	}
	switch {
	case f.unsent:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errBroken}
	case f.drop:
		return nil, errBroken
	case f.refuse != "":
		return refusalOf(request, f.refuse), nil
	}
	response, err := f.next.Do(request)
	if f.after != nil {
		f.after()
	}
	if f.lose && err == nil {
		_ = response.Body.Close()
		return nil, errBroken
	}
	return response, err
}

func operationOf(request *http.Request) string {
	target := request.Header.Get("X-Amz-Target")
	return target[len("DynamoDB_20120810."):]
}

// refusalOf is an error answer as DynamoDB words it.
func refusalOf(request *http.Request, code string) *http.Response {
	status := http.StatusBadRequest
	if code == "InternalServerError" {
		status = http.StatusInternalServerError
	}
	body := `{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `","message":"said the test"}`
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"test"}}, Body: io.NopCloser(bytes.NewReader([]byte(body))),
		ContentLength: int64(len(body)), Request: request,
	}
}

// only matches requests of the operations.
func only(names ...string) func(string, []byte) bool {
	return func(operation string, _ []byte) bool {
		for _, name := range names {
			if operation == name {
				return true
			}
		}
		return false
	}
}

// faulty is another process whose requests suffer f, which has to be armed.
func (s *process) faulty(opts *dynalimit.Options, f *brokenWire) *process {
	s.t.Helper()
	f.next = s.client().Options().HTTPClient
	return s.wired(opts, f)
}

// writesOf matches writes of one entity's bucket.
func writesOf(entity string) func(string, []byte) bool {
	return func(operation string, body []byte) bool {
		return operation == "UpdateItem" && bytes.Contains(body, []byte(`"ENTITY#`+entity+`"`))
	}
}

// throttled1 refuses a request for lack of capacity.
var throttled1 = ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}

// silences are the ways in which a store can fail to answer.
var silences = map[string]func(*ddbmem.Request) ddbmem.Fault{
	"hang":  func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} },
	"reset": func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} },
	"5xx": func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}
	},
	"only writes": func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Drop: r.Operation != "GetItem" && r.Operation != "BatchGetItem"}
	},
}

// after10ms makes every request take 10 ms before it is executed.
func after10ms(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} }

// outages are what counts as the store not answering.
var outages = map[string]ddbmem.Fault{
	"throttled":       throttled1,
	"request limit":   {Error: &ddbmem.Error{Code: "RequestLimitExceeded"}},
	"throttling":      {Error: &ddbmem.Error{Code: "ThrottlingException"}},
	"5xx":             {Error: &ddbmem.Error{Code: "InternalServerError"}},
	"503":             {Error: &ddbmem.Error{Code: "ServiceUnavailable"}},
	"connection lost": {Drop: true},
	"answer lost":     {Lose: true},
	"timeout":         {Before: time.Hour},
}
