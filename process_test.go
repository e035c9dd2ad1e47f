package dynalimit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// model is the resource of these tests.
const model = "gpt-4"

// handClock is a clock that tests move by hand.
type handClock struct{ ms atomic.Int64 }

func newHandClock() *handClock {
	c := &handClock{}
	c.ms.Store(noon().UnixMilli())
	return c
}

func (c *handClock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *handClock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// process is one that limits: a limiter with its own repository on a table.
type process struct {
	*engine
	t       *testing.T
	clock   *handClock
	repo    *Repository
	limiter *RateLimiter
}

// newProcess is a process on a new table whose clock stands still.
func newProcess(t *testing.T, e *engine, opts *Options) *process {
	t.Helper()
	clock := newHandClock()
	repo := e.repository(t, &RepositoryOptions{Now: clock.now})
	return (&process{engine: e, t: t, clock: clock}).on(repo, opts)
}

// memProcess is a process on a new table of a new ddbmem with its clock.
func memProcess(t *testing.T, opts *Options) *process {
	t.Helper()
	clock := newHandClock()
	e := memEngine(t, ddbmem.WithClock(clock.now), ddbmem.WithLog())
	repo := e.repository(t, &RepositoryOptions{Now: clock.now})
	return (&process{engine: e, t: t, clock: clock}).on(repo, opts)
}

func (s *process) on(repo *Repository, opts *Options) *process {
	s.t.Helper()
	limiter, err := New(repo, opts)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, limiter.Close(context.WithoutCancel(s.t.Context()))) })
	return &process{engine: s.engine, t: s.t, clock: s.clock, repo: repo, limiter: limiter}
}

// peer is another process on the same table and with the same clock, unless it
// brings one.
func (s *process) peer(opts *Options, clocks ...*handClock) *process {
	s.t.Helper()
	clock := s.clock
	if len(clocks) > 0 {
		clock = clocks[0]
	}
	p := *s
	p.clock = clock
	return p.on(s.open(s.t, s.repo.table, &RepositoryOptions{Now: clock.now}), opts)
}

// wired is another process whose requests pass through a transport of the test.
func (s *process) wired(opts *Options, transport aws.HTTPClient) *process {
	s.t.Helper()
	repo, err := NewRepository(s.client(func(o *dynamodb.Options) { o.HTTPClient = transport }), s.repo.table, &RepositoryOptions{Now: s.clock.now})
	require.NoError(s.t, err)
	return s.on(repo, opts)
}

// acquire takes amounts that must fit.
func (s *process) acquire(entity string, a Amounts, opts ...AcquireOption) *Lease {
	s.t.Helper()
	lease, err := s.limiter.Acquire(s.t.Context(), entity, model, a, opts...)
	require.NoError(s.t, err)
	return lease
}

// recovers ends every fault and waits until the store answers and nothing is owed.
func (s *process) recovers() {
	s.t.Helper()
	s.db.SetFaults(nil)
	for range 60 {
		if h := s.limiter.Health(); !h.Open && h.SilentBuckets == 0 && h.OwedBuckets == 0 {
			return
		}
		elapse(time.Second)
	}
	require.Fail(s.t, "the store does not recover", "%+v", s.limiter.Health())
}

// deny asks for amounts that must not fit.
func (s *process) deny(entity string, a Amounts, opts ...AcquireOption) *LimitExceededError {
	s.t.Helper()
	_, err := s.limiter.Acquire(s.t.Context(), entity, model, a, opts...)
	return s.denied(err)
}

func (s *process) denied(err error) *LimitExceededError {
	s.t.Helper()
	var exceeded *LimitExceededError
	require.ErrorAs(s.t, err, &exceeded)
	require.ErrorIs(s.t, err, ErrLimitExceeded)
	return exceeded
}

// item is the entity's bucket as stored, nil for none.
func (s *process) item(entity string) schema.Item {
	s.t.Helper()
	out, err := s.client().GetItem(s.t.Context(), &dynamodb.GetItemInput{
		TableName: &s.repo.table, Key: s.repo.keys.Bucket(entity, model).Attributes(), ConsistentRead: aws.Bool(true),
	})
	require.NoError(s.t, err)
	return out.Item
}

// image is the entity's bucket, decoded; it must exist.
func (s *process) image(entity string) *schema.Image {
	s.t.Helper()
	image, err := schema.NewLimitSets().DecodeBucket(s.item(entity), nil, 0)
	require.NoError(s.t, err)
	require.NotNil(s.t, image, "no bucket of %s", entity)
	return image
}

// stored is one limit of the entity's bucket.
func (s *process) stored(entity, limit string) schema.Stored {
	s.t.Helper()
	image := s.image(entity)
	i := image.Set.Index(limit)
	require.GreaterOrEqual(s.t, i, 0, "no limit %s in the bucket of %s", limit, entity)
	return image.Limits[i]
}

// level is what a limit of the entity is worth now, in whole tokens, read afresh.
func (s *process) level(entity, limit string) int64 {
	s.t.Helper()
	image := s.image(entity)
	i := image.Set.Index(limit)
	require.GreaterOrEqual(s.t, i, 0, "no limit %s in the bucket of %s", limit, entity)
	return floorDiv(image.State(i).Level(s.clock.now().UnixMilli()), milli)
}

// delete removes the entity's bucket, as the time to live would.
func (s *process) delete(entity string) {
	s.t.Helper()
	_, err := s.client().DeleteItem(s.t.Context(), &dynamodb.DeleteItemInput{
		TableName: &s.repo.table, Key: s.repo.keys.Bucket(entity, model).Attributes(),
	})
	require.NoError(s.t, err)
}

// family stores records so that each entity cascades to the next.
func (s *process) family(ids ...string) {
	s.t.Helper()
	for i := len(ids) - 1; i >= 0; i-- {
		e := Entity{ID: ids[i]}
		if i+1 < len(ids) {
			e.ParentID, e.Cascade = ids[i+1], true
		}
		require.NoError(s.t, s.repo.CreateEntity(s.t.Context(), e))
	}
}

// used is what the requests of do cost.
func (s *process) used(do func()) ddbmem.Meter {
	before := s.db.Meter()
	do()
	return s.db.Meter().Sub(before)
}

// writes are the requests among a meter's that write a bucket.
func writes(m ddbmem.Meter) int64 {
	return m.Operations["UpdateItem"].Requests + m.Operations["PutItem"].Requests + m.Operations["TransactWriteItems"].Requests
}

// fault does something to the requests that match: on any engine.
type fault struct {
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
func (f *fault) times(n int) *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.hits = n, 0
	return f
}

func (f *fault) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *fault) strikes(operation string, body []byte) bool {
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
func (f *fault) Do(request *http.Request) (*http.Response, error) {
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
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(bytes.NewReader([]byte(body))),
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
func (s *process) faulty(opts *Options, f *fault) *process {
	s.t.Helper()
	f.next = s.client().Options().HTTPClient
	return s.wired(opts, f)
}
