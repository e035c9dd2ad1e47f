// Package observe reports the events of a limiter: for traces, metrics and logs.
package observe

import "context"

// Observer receives the events of a limiter, for traces, metrics and logs. Set one in
// dynalimit.Options.Observer. Every function is optional; a nil one costs
// nothing. Each takes one struct, so that a later version can add fields.
//
// The limiter calls them on its hot path, from many goroutines: they must be quick and safe for
// concurrent use. A context is that of the call, or of the write. A panic is logged
// (dynalimit.Options.Logger), and the limiter goes on.
//
// They may call dynalimit.RateLimiter.Health and dynalimit.Repository.ConfigCacheStats. Leave
// all other calls to another goroutine, and do not wait for it. Some run while a lease is locked:
// a use of that lease, even Consumed, then never returns. Others run while a bucket, or
// callers that wait for a configuration, wait for their return: a call that needs either waits
// until its time is over, and Close never ends.
type Observer struct {
	// AcquireStart is called for an Acquire, Wait or Do before any look-up. The call goes
	// on with the returned context, so a start can put a span into it; nil stands for
	// the given context.
	AcquireStart func(context.Context, AcquireStart) context.Context
	// AcquireEnd is called at its end, before it returns, with the context of its start.
	AcquireEnd func(context.Context, AcquireEnd)
	// Denied is called for an Acquire, Wait, Do or Consume that limits denied, before its end.
	Denied func(context.Context, Denial)
	// Corrected is called for a Consume, Adjust, Settle, SettleSoon or Rollback that was carried out,
	// or failed on the way. It is not called for refused or denied ones, nor for corrections
	// after the end of the lease.
	Corrected func(context.Context, Correction)
	// SlotsExpired is called when a lease has kept its slots of calls in flight for the longest time. Its call
	// has probably ended, and nobody ended the lease.
	SlotsExpired func(SlotsExpired)
	// Overran is called when a limit was exceeded and denied no call.
	Overran func(Overrun)
	// Crossed is called when the answer to a write shows that the use of a quota has reached a percentage of its
	// alerts since the last answer. It is for logs: each process that sees it tells it, a use that falls and rises tells
	// it again, and transactions (dynalimit.ChargeTransaction) do not tell it. Package aggregator/alert tells people once.
	Crossed func(Crossing)
	// WriteStart is called for a write to a bucket before it is sent. The write goes on with the
	// returned context, as an acquire does.
	WriteStart func(context.Context, WriteStart) context.Context
	// WriteEnd is called when the outcome of a write is known, or cannot be known, with the context of
	// its start.
	WriteEnd func(context.Context, WriteEnd)
	// ConfigLoaded is called for each read of a configuration that was not in the cache.
	ConfigLoaded func(ConfigLoad)
	// AvailabilityChanged is called once when the table stops answering, and once when it answers
	// again.
	AvailabilityChanged func(AvailabilityChange)
	// PacingChanged is called when this process begins to leave an interval between its writes to a
	// bucket, because the bucket's partition throttles. It is called again when that is over, at
	// the next use of the bucket.
	PacingChanged func(PacingChange)
	// Dropped is called for amounts that no bucket will receive any more.
	Dropped func(Drop)
}
