// Package bookkeeping gives this project's servers counters that no user configures. They lie
// below a prefix that no id, resource or namespace of a user can name (see schema.OwnKeys):
// no source or block applies to them, and no list or sum of usage has them.
package bookkeeping

// Limiter returns the *dynalimit.RateLimiter of another one's own counters. Close of the other
// closes it too. Package dynalimit sets it, because this package cannot
// import that one.
var Limiter func(limiter any) any
