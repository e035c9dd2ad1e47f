package aggregator

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
)

// requestTimeout bounds one request, so that nothing waits for ever.
const requestTimeout = 5 * time.Second

// pauses are the waits before a write that was not served is made again.
var pauses = ddb.Backoff{First: 50 * time.Millisecond, Most: 5 * time.Second}

// boundRequest sends a request with a timeout of 5 s and returns its result. A panic of the client becomes an
// error.
func boundRequest[In, Out, Option any](ctx context.Context, request func(context.Context, In, ...Option) (Out, error), in In, o ...Option) (Out, error) {
	ctx, cancel := ddb.Bound(ctx, requestTimeout)
	defer cancel()
	var out Out
	err := guard.Apart(func() (err error) { // a client that panics must not end the process
		out, err = request(ctx, in, o...)
		return err
	})
	return out, err
}
