package ddb

import (
	"context"
	"errors"
	"time"
)

// errTimeout is the cause of a context that Bound's timeout ended.
var errTimeout = errors.New("no answer within the request timeout")

// errHeldBack is the cause of a request that this process failed to send in time.
var errHeldBack = errors.New("this process held the request back, and DynamoDB has no part in it; see the client's retry mode (AWS_RETRY_MODE)")

// Bound gives one request its timeout. The timeout can be told apart from a caller's own deadline.
func Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// expired reports whether Bound's timeout ended the context.
func expired(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeout) }
