// Package bookkeeping gives this project's servers counters that no user configures. They lie
// below a prefix that no id, resource or namespace of a user can name (see schema.OwnKeys):
// no level or block applies to them, and no list or sum of usage has them.
package bookkeeping

// Limiter returns the *dynalimit.RateLimiter of a *dynalimit.RateLimiter's own counters. Close of
// the one that it is given closes it too. Package dynalimit sets it, which this package cannot
// import.
var Limiter func(limiter any) any
