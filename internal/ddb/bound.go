package ddb

import (
	"context"
	"errors"
	"time"
)

// errTimeout is the cause of a context that Bound's timeout ended.
var errTimeout = errors.New("no answer within the request timeout")

// Bound gives one request its timeout, which can be told apart from a caller's own
// deadline.
func Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, errTimeout)
}

// expired says that Bound's timeout ended the context.
func expired(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimeout) }
