package connect

import (
	"context"
	"errors"
	"regexp"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// requestMiddleware returns an option of AWS clients that bounds each request, its tries included, to limit,
// unless its context has a deadline. It also makes the library's texts of errors, and records writes for Wrote.
func requestMiddleware(limit time.Duration) func(*middleware.Stack) error {
	request := func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		markWrite(ctx, awsmiddleware.GetOperationName(ctx))
		if _, bounded := ctx.Deadline(); !bounded {
			var cancel context.CancelFunc
			ctx, cancel = ddb.Bound(ctx, limit)
			defer cancel()
		}
		out, meta, err := next.HandleInitialize(ctx, in)
		return out, meta, ddb.RewordError(ctx, awsmiddleware.GetServiceID(ctx), err)
	}
	return func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("dynalimit", request), middleware.After)
	}
}

// wroteKey is the context key of the record of writes.
type wroteKey struct{}

// writes matches the operations that change something.
var writes = regexp.MustCompile(`^(Put|Update|Delete|Create|Transact|BatchWrite|Tag|Untag|Restore|Execute)`)

// WithWriteMark returns a context in which Wrote reports whether a request was sent that may have changed
// something.
func WithWriteMark(ctx context.Context) context.Context {
	return context.WithValue(ctx, wroteKey{}, new(atomic.Bool))
}

// Wrote reports whether a command has sent a request under a context of WithWriteMark that may have changed
// something. It is true for any other context.
func Wrote(ctx context.Context) bool {
	wrote, ok := ctx.Value(wroteKey{}).(*atomic.Bool)
	return !ok || wrote.Load()
}

// markWrite records in a context of WithWriteMark that a command sends a write. It ignores other operations.
func markWrite(ctx context.Context, operation string) {
	if wrote, ok := ctx.Value(wroteKey{}).(*atomic.Bool); ok && writes.MatchString(operation) {
		wrote.Store(true)
	}
}

// Unanswered reports whether an AWS request got no answer, or an answer that blames a setting such as the
// endpoint or the region. It is false for any other error and for nil.
func Unanswered(err error) bool {
	cause := causeOf(err)
	d := ddb.Classify(cause, context.Background())
	return cause != nil && (d.Silent || d.Setting)
}

// Throttled reports whether err is DynamoDB's refusal of a request for lack of throughput. It is false for nil.
func Throttled(err error) bool {
	api, is := errors.AsType[smithy.APIError](err)
	return is && ddb.Classify(api, context.Background()).Verdict == ddb.Throttled
}

// NoCredentials reports whether err means that an AWS request was not sent for lack of credentials. It is false
// for nil.
func NoCredentials(err error) bool {
	cause := causeOf(err)
	return cause != nil && ddb.LacksCredentials(cause)
}

// causeOf returns the error inside the *smithy.OperationError of a failed AWS request, or nil for another error
// and for nil.
func causeOf(err error) error {
	if request, ok := errors.AsType[*smithy.OperationError](err); ok {
		return request.Err
	}
	return nil
}
