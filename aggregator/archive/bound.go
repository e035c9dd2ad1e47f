package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
)

// A Writer gets the time for one request, and for the upload of a file over a slow network.
const (
	timeToPut    = 5 * time.Second
	timeForMiB   = 5 * time.Second
	timeToReturn = time.Second
)

// errOverdue is the cause of a context that ended because the Writer's time was over.
var errOverdue = errors.New("the Writer has not stored the file in time")

// putInTime stores a file, or fails when the Writer's time is over: 5 s, 5 s more for each MiB, and 1 s to
// return. It leaves a Writer that hangs running, and counts it in a.overdue until it returns. It fails at once
// while Options.Writers calls hang.
func (a *Archive) putInTime(ctx context.Context, name string, data []byte) error {
	if n := a.overdue.Load(); n >= int64(a.options.Writers) {
		return fmt.Errorf("the Writer has not returned from %d calls whose time is over", n)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeToPut+time.Duration(len(data)>>10)*timeForMiB>>10, errOverdue)
	defer cancel()
	put := make(chan error, 1)
	go func() { put <- a.putSafely(ctx, name, data) }()
	select {
	case err := <-put:
		return overdueError(ctx, err)
	case <-ctx.Done():
	}
	leave := time.NewTimer(timeToReturn)
	defer leave.Stop()
	select {
	case err := <-put:
		return overdueError(ctx, err)
	case <-leave.C:
	}
	a.overdue.Add(1)
	go func() {
		<-put //nolint:errcheck // the file is written again
		a.overdue.Add(-1)
	}()
	return context.Cause(ctx)
}

// overdueError returns the Writer's error, with errOverdue in front if its time had ended.
func overdueError(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errOverdue) {
		return fmt.Errorf("%w: %w", errOverdue, err)
	}
	return err
}

// putSafely calls the Writer. A panic or Goexit becomes an error, so that the records come again.
func (a *Archive) putSafely(ctx context.Context, name string, data []byte) error {
	err := guard.Apart(func() error { return a.writer.Put(ctx, name, data) })
	if ended, ok := errors.AsType[*guard.Ended](err); ok {
		return fmt.Errorf("the Writer did not return: %w\n%s", err, ended.Stack)
	}
	return err
}
