package dynalimit

import (
	"context"
	"errors"
)

// Do acquires, calls fn with the lease and keeps what it holds when fn returns
// nil. When fn returns an error or panics, the lease is rolled back; fn may have
// settled it before. Errors as of Acquire, or fn's, joined by what could not be
// given back.
func (l *RateLimiter) Do(ctx context.Context, entity, resource string, amounts Amounts, fn func(context.Context, *Lease) error, opts ...AcquireOption) error {
	lease, err := l.Acquire(ctx, entity, resource, amounts, opts...)
	if err != nil {
		return err
	}
	if fn == nil {
		return errors.Join(invalid("fn", "is nil; pass the function to call under the lease"), lease.Rollback(ctx))
	}
	returned := false
	defer func() {
		if !returned { // a panic goes on after the give-back
			_ = lease.Rollback(ctx)
		}
	}()
	err = fn(ctx, lease)
	returned = true
	if err != nil {
		return errors.Join(err, lease.Rollback(ctx))
	}
	return nil
}
