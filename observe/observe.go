// Package observe is how a program hears what a limiter does: for traces, metrics and logs.
package observe

import "context"

// Observer is told what a limiter does, for traces, metrics and logs. Set one in
// dynalimit.Options.Observer. Every function is optional: what is nil is not heard, and costs
// nothing. Each takes one struct, so that a later version can tell more.
//
// The limiter calls them on its hot path, from many goroutines: they must be quick and safe for
// concurrent use. A context is that of the call, or of the write. A panic is logged
// (dynalimit.Options.Logger), and the limiter goes on.
//
// They may ask for dynalimit.RateLimiter.Health and dynalimit.Repository.ConfigCacheStats. Leave
// all else to another goroutine, and do not wait for it. Some are called while a lease is locked:
// who uses it then, if only by Consumed, waits for ever. Others are called while a bucket, or
// those who wait for a configuration, wait for them to return: a call that needs either waits
// until its time is over, and Close without end.
type Observer struct {
	// AcquireStart hears of an Acquire, Wait or Do before anything is looked up. The call goes
	// on with the context that it returns, so a start can put a span into it; nil stands for
	// the context that it was given.
	AcquireStart func(context.Context, AcquireStart) context.Context
	// AcquireEnd hears how it ended, before it returns, with the context of its start.
	AcquireEnd func(context.Context, AcquireEnd)
	// Denied hears of an Acquire, Wait, Do or Consume that limits denied, before its end.
	Denied func(context.Context, Denial)
	// Corrected hears of a Consume, Adjust, Settle, SettleSoon or Rollback that was carried out,
	// or failed on the way. It does not hear of those that were refused or denied, nor of what
	// came after the end of the lease.
	Corrected func(context.Context, Correction)
	// Overran hears that a limit was exceeded and denied nobody.
	Overran func(Overrun)
	// WriteStart hears of a write to a bucket before it is sent. It goes on with the context
	// that it returns, as an acquire does.
	WriteStart func(context.Context, WriteStart) context.Context
	// WriteEnd hears of its outcome when that is known, or cannot be known, with the context of
	// its start.
	WriteEnd func(context.Context, WriteEnd)
	// ConfigLoaded hears of each read of a configuration that the cache did not have.
	ConfigLoaded func(ConfigLoad)
	// AvailabilityChanged hears once when the table stops answering, and once when it answers
	// again.
	AvailabilityChanged func(AvailabilityChange)
	// PacingChanged hears when this process begins to leave an interval between its writes to a
	// bucket, because the bucket's partition throttles. It hears again when that is over, at
	// the next use of the bucket.
	PacingChanged func(PacingChange)
	// Dropped hears of what no bucket will be told any more.
	Dropped func(Drop)
}
