// Package leanddb makes the SDK's client of DynamoDB cheaper where a limiter spends most of its
// processor time: UpdateItem. It encodes, signs and decodes these requests itself, and sends the
// same bytes.
//
//	repo, err := dynalimit.NewRepository(leanddb.New(client), "limits", nil)
//
// awsclient.NewLean makes such a client for a busy service. The Client uses the credentials, the
// endpoint, the retryer and the HTTP client of the SDK's client. It copies the first request of the
// SDK, and checks that it computes the same signature for it. If the signature differs, the SDK sends
// all requests.
//
// The SDK also sends:
//
//   - every other operation, and an UpdateItem with legacy parameters, with ReturnConsumedCapacity
//     or ReturnItemCollectionMetrics, or on a table named by its ARN;
//   - all requests of a client with APIOptions, interceptors, a log mode, a meter or a tracer, a
//     signer, an endpoint resolver or a protocol of its own, compressed answers, endpoint
//     discovery, retry mode adaptive, or without credentials;
//   - all requests in AWS Lambda, where each carries the trace of its invocation;
//   - all requests while this machine's clock is off by more than a minute.
//
// An answer that is neither a success nor a failed condition goes to the SDK, and so does a lost
// answer. The SDK judges it as that of its own first try, and then retries or returns its error.
// So nothing is sent more often than by the SDK.
//
// One difference remains: the ResultMetadata of a lean success is empty, and the context of the
// HTTP request has none of the SDK's values.
package leanddb

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Client is a client of DynamoDB with a cheaper UpdateItem. It is safe for concurrent use. Make one
// with New; the zero value is not usable.
type Client struct {
	*dynamodb.Client
	// base are the options of the SDK's client. isPlain reports that this package can send its
	// requests.
	base    dynamodb.Options
	isPlain bool
	skew    skew
	// templates are the learned templates. mu is held to add one.
	templates atomic.Pointer[[]*template]
	mu        sync.Mutex
}

// New returns a Client over the SDK's client. It does no I/O. It panics if client is nil.
func New(client *dynamodb.Client) *Client {
	if client == nil {
		panic("leanddb: client is nil; pass the client of awsclient.New, or use awsclient.NewLean")
	}
	c := &Client{Client: client, base: client.Options()}
	c.isPlain = isPlain(&c.base)
	c.base.Credentials = &provider{c.base.Credentials}
	c.templates.Store(&[]*template{})
	return c
}

// UpdateItem changes one item, as the SDK's client does, with its own request if that is plain, else through
// the SDK. An answer other than a success or a failed condition goes to the SDK too. It applies each function
// once.
func (c *Client) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, fns ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if !c.isPlain || in == nil || !isPlainUpdate(in) {
		return c.Client.UpdateItem(ctx, in, fns...)
	}
	a := attempts.Get().(*attempt)
	a.client, a.options = c, c.base
	for _, fn := range fns {
		fn(&a.options)
	}
	if c.followsBase(&a.options) && c.skew.isSmall() {
		if out, err, done := a.sendUpdate(ctx, in); done {
			*a = attempt{}
			attempts.Put(a)
			return out, err
		}
	}
	ctx = a.prepareSDK(ctx)
	return c.Client.UpdateItem(ctx, in, func(o *dynamodb.Options) { *o = a.options })
}

// isPlainUpdate reports whether a request has only the parameters that this package encodes, with a table by
// name and a key.
func isPlainUpdate(in *dynamodb.UpdateItemInput) bool {
	return in.TableName != nil && in.Key != nil && !strings.HasPrefix(*in.TableName, "arn:") &&
		in.AttributeUpdates == nil && in.Expected == nil && in.ConditionalOperator == "" &&
		in.ReturnConsumedCapacity == "" && in.ReturnItemCollectionMetrics == ""
}

// findTemplate returns the learned template with a key, or nil.
func (c *Client) findTemplate(k templateKey) *template {
	for _, t := range *c.templates.Load() {
		if t.key == k {
			return t
		}
	}
	return nil
}

// mostTemplates bounds the templates of a client. One stands for an account, so few are needed.
const mostTemplates = 16

// addTemplate adds a learned template, also a refused one. It does nothing if its key has one already or the
// client has 16.
func (c *Client) addTemplate(t *template) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.templates.Load()
	if c.findTemplate(t.key) == nil && len(old) < mostTemplates {
		list := append(old[:len(old):len(old)], t)
		c.templates.Store(&list)
	}
}

var _ interface {
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Options() dynamodb.Options
} = (*Client)(nil)

var _ aws.HTTPClient = (*attempt)(nil)
