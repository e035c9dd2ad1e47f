// Package prefetch decides what a process debits of a bucket ahead of its calls,
// and what becomes of it. It is pure: time is an argument, in milliseconds of a
// clock that never goes back.
//
// A Stock holds tokens that were debited and are not admitted yet. They may be
// admitted until they are a horizon old, counted from when their write was sent;
// what is left then lapses. Nothing is ever given back to the bucket: given back
// and taken again, an old token would be young, the queue of admissions would
// drain meanwhile, and the excess over the burst would grow without bound. As it
// is, refill × horizon at most is admitted above the burst, and beside it what leases
// give back within the horizon (docs/design/prefetch.md). What lapsed is taken off the
// counter, so that usage stays what was admitted.
//
//	stock.go   what is held, and until when
//	demand.go  what calls need, and how much of the bucket's traffic is this process's
//	want.go    what to debit with the next write
package prefetch
