package ddb

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/guard"
)

const (
	// longestRetryDelay bounds the SDK's waits between the tries of a request that it may send again. A
	// caller should learn of a store without capacity within a second, not after a backoff of up to 20 s.
	longestRetryDelay = 400 * time.Millisecond
	// ControlTimeout bounds a request that makes or describes a table, because DynamoDB answers those slowly.
	// It also bounds a request of an administrator, for whom a late answer is better than a failure.
	ControlTimeout = 10 * time.Second
)

// WithoutRetries turns off the SDK's blind retry of one request, as Client.Once does for all.
func WithoutRetries(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// WithoutThrottleRetries turns off the SDK's retries of throttled requests. It does nothing for a retryer that
// is not an aws.RetryerV2. Immediate retries would keep a partition overloaded that other clients try to spare.
func WithoutThrottleRetries(o *dynamodb.Options) {
	if r, ok := o.Retryer.(aws.RetryerV2); ok {
		o.Retryer = spares{r}
	}
}

// spares is a retryer that never retries throttled requests.
type spares struct{ aws.RetryerV2 }

// IsErrorRetryable implements aws.Retryer. It refuses to repeat a throttled request, and leaves other errors to
// the client's own retryer.
func (s spares) IsErrorRetryable(err error) bool {
	return classifyError(err, context.Background()).Verdict != Throttled && s.RetryerV2.IsErrorRetryable(err)
}

type options = []func(*dynamodb.Options)

// API is the client interface that every user of Watch needs.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
}

type deleter interface {
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

type scanner interface {
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

type batchWriter interface {
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
}

// Client bounds every request by a timeout, SDK retries included, classifies its outcome once, and shows DynamoDB's
// time to the clock. An error carries its diagnosis, for Classify. Outcomes of requests for data go to the breaker of
// their table, and a FailFast client refuses these, unsent, while the table does not answer. Requests about a table
// have ControlTimeout at least, and report to no breaker. A user holds a Client as the interface of its own client, so
// that it cannot call methods that the client lacks.
type Client struct {
	api     API
	delete  deleter
	scan    scanner
	batch   batchWriter
	breaker *Breaker
	others  map[string]*Breaker // of other tables than breaker's, by name
	clock   *Clock
	timeout time.Duration
	// failFast makes requests fail at once while the table does not answer. once turns off the SDK's retries.
	failFast, once bool
}

// Watch returns a Client over a user's client. It reports requests for data to the breaker, which may be nil,
// and shows the dates of answers to the clock. The timeout bounds one request with all tries of the SDK.
func Watch(api API, breaker *Breaker, clock *Clock, timeout time.Duration) *Client {
	c := &Client{api: api, breaker: breaker, clock: clock, timeout: timeout}
	c.delete, _ = api.(deleter)
	c.scan, _ = api.(scanner)
	c.batch, _ = api.(batchWriter)
	return c
}

// WithTable returns a copy of c that reports requests to the named table to the breaker b, and those to other
// tables to c's own breaker.
func (c *Client) WithTable(table string, b *Breaker) *Client {
	both := *c
	both.others = maps.Clone(c.others)
	if both.others == nil {
		both.others = map[string]*Breaker{}
	}
	both.others[table] = b
	return &both
}

// breakerFor returns the breaker of the table of in, a request: that of WithTable, or else c's own, which may
// be nil.
func (c *Client) breakerFor(in any) *Breaker {
	if b := c.others[tableOf(in)]; b != nil {
		return b
	}
	return c.breaker
}

// FailFast returns a copy of the client that sends no request for data while the table is open, except in the
// first 100 ms. A request then fails at once, unsent. IsOpen recognises its error.
func (c *Client) FailFast() *Client {
	hasty := *c
	hasty.failFast = true
	return &hasty
}

// WithControlTimeout returns a copy of the client with a timeout of at least ControlTimeout, ten seconds. It is
// for the changes of administrators, so that a late success is not reported as unconfirmed.
func (c *Client) WithControlTimeout() *Client {
	patient := *c
	patient.timeout = max(c.timeout, ControlTimeout)
	return &patient
}

// Once returns a copy of the client without the SDK's blind retry, for writes: an ADD that landed and is sent
// again counts twice.
func (c *Client) Once() *Client {
	single := *c
	single.once = true
	return &single
}

// refuseWhileOpen returns the error of a FailFast client for a request that it does not send, because the table
// has been open for longer than a moment. It returns nil to send the request.
func refuseWhileOpen(b *Breaker) error {
	if !isClosed(b.Lasting()) {
		return nil
	}
	return withDiagnosis(Diagnosis{Err: &openError{b.State().Cause}, Verdict: Unsent, RetryAfter: b.RetryAfter()})
}

// scope is the subject of a request: the data of a table, or the table itself.
type scope bool

const (
	forData  scope = false
	forTable scope = true
)

// sendRequest makes a request within the timeout and returns its error with a diagnosis, for Classify; a success
// that does not come from DynamoDB is ErrForeign. It reports the outcome of a request for data to the breaker of
// its table. A FailFast client refuses such a request while the table is open. After an outage it may wait for a
// place in the breaker's trial. The outcome of a request about a table does not show whether its data can be used.
func sendRequest[In, Out any](ctx context.Context, c *Client, about scope, request func(context.Context, In, ...func(*dynamodb.Options)) (Out, error), in In, opts options) (out Out, err error) {
	breaker, timeout := c.breaker, c.timeout
	switch {
	case about == forTable:
		breaker, timeout = nil, max(timeout, ControlTimeout)
	case c.others != nil:
		breaker = c.breakerFor(in)
	}
	if c.failFast {
		if err := refuseWhileOpen(breaker); err != nil {
			return out, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout) // as Bound
	defer cancel()
	if breaker != nil && breaker.gate.trial.Load() != nil {
		leave, ok := breaker.gate.enterTrial(ctx)
		if !ok {
			return out, withDiagnosis(Diagnosis{Err: errHeldBack, Verdict: Unsent})
		}
		defer leave()
	}
	t, call := &tracedRequest{client: c, breaker: breaker}, breaker.Begin()
	t.ctx = t.waiting.watchConnections(ctx, breaker, c.timeout)
	ctx = t.ctx
	guard.Call(func() { out, err = request(ctx, in, append(append(t.opts[:0], opts...), t.addTo)...) }, func(e *guard.Ended) {
		err = e
		breaker.logPanic(ctx, e)
	})
	if err == nil && (t.next != nil && !t.marked || !isComplete(in, out)) { // it does not come from DynamoDB
		err = ErrForeign
	}
	if err == nil && breaker != nil {
		call.Answer()
		return out, nil
	}
	call.silent = ctx.Value(silentKey{}) != nil
	return out, withDiagnosis(call.End(t.correctDiagnosis(Classify(err, ctx), timeout)))
}

// GetItem sends a request for data as Client describes.
func (c *Client) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return sendRequest(ctx, c, forData, c.api.GetItem, in, o)
}

// PutItem sends a request for data as Client describes.
func (c *Client) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return sendRequest(ctx, c, forData, c.api.PutItem, in, o)
}

// UpdateItem sends a request for data as Client describes.
func (c *Client) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return sendRequest(ctx, c, forData, c.api.UpdateItem, in, o)
}

// DeleteItem sends a request for data as Client describes. It panics if the user's client has no such method.
func (c *Client) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return sendRequest(ctx, c, forData, c.delete.DeleteItem, in, o)
}

// Query sends a request for data as Client describes.
func (c *Client) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return sendRequest(ctx, c, forData, c.api.Query, in, o)
}

// Scan sends a request for data as Client describes. It panics if the user's client has no such method.
func (c *Client) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return sendRequest(ctx, c, forData, c.scan.Scan, in, o)
}

// BatchGetItem sends a request for data as Client describes.
func (c *Client) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return sendRequest(ctx, c, forData, c.api.BatchGetItem, in, o)
}

// BatchWriteItem sends a request for data as Client describes. It panics if the user's client has no such method.
func (c *Client) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error) {
	return sendRequest(ctx, c, forData, c.batch.BatchWriteItem, in, o)
}

// TransactWriteItems sends a request for data as Client describes.
func (c *Client) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return sendRequest(ctx, c, forData, c.api.TransactWriteItems, in, o)
}

// CreateTable sends a request about a table as Client describes.
func (c *Client) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, o ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	return sendRequest(ctx, c, forTable, c.api.CreateTable, in, o)
}

// DescribeTable sends a request about a table as Client describes.
func (c *Client) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return sendRequest(ctx, c, forTable, c.api.DescribeTable, in, o)
}

// UpdateTimeToLive sends a request about a table as Client describes.
func (c *Client) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return sendRequest(ctx, c, forTable, c.api.UpdateTimeToLive, in, o)
}

// DescribeTimeToLive sends a request about a table as Client describes.
func (c *Client) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, o ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return sendRequest(ctx, c, forTable, c.api.DescribeTimeToLive, in, o)
}

// Bound returns a context that ends after the timeout of one request, or with ctx. Its cause tells the timeout
// apart from a caller's own deadline. The caller must call the returned function.
func Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// isComplete reports whether a success has the parts that DynamoDB always sends in answer to such a request. It
// is true for requests whose answer may be empty.
func isComplete(in, out any) bool {
	switch out := out.(type) {
	case *dynamodb.UpdateItemOutput:
		return in.(*dynamodb.UpdateItemInput).ReturnValues != types.ReturnValueAllNew || len(out.Attributes) > 0
	case *dynamodb.BatchGetItemOutput:
		return namesTables(in.(*dynamodb.BatchGetItemInput), out)
	case *dynamodb.BatchWriteItemOutput:
		return out.UnprocessedItems != nil
	case *dynamodb.QueryOutput:
		return out.Items != nil || in.(*dynamodb.QueryInput).Select == types.SelectCount
	case *dynamodb.ScanOutput:
		return out.Items != nil || in.(*dynamodb.ScanInput).Select == types.SelectCount
	case *dynamodb.DescribeTableOutput:
		return out.Table != nil
	case *dynamodb.CreateTableOutput:
		return out.TableDescription != nil
	case *dynamodb.DescribeTimeToLiveOutput:
		return out.TimeToLiveDescription != nil
	case *dynamodb.UpdateTimeToLiveOutput:
		return out.TimeToLiveSpecification != nil
	}
	return true // the answer may be empty
}

// namesTables reports whether the answer to a batch names every requested table, or returns its keys as
// unprocessed. A table requested by its ARN may have another name in the answer.
func namesTables(in *dynamodb.BatchGetItemInput, out *dynamodb.BatchGetItemOutput) bool {
	for table := range in.RequestItems {
		_, named := out.Responses[table]
		_, left := out.UnprocessedKeys[table]
		if !named && !left && (!strings.HasPrefix(table, arn) || len(out.Responses)+len(out.UnprocessedKeys) == 0) {
			return false
		}
	}
	return true
}
