// Package prefetch decides how many tokens a process debits from a bucket ahead of its calls, and keeps them
// until they are admitted or lapse. It is pure: time is an argument, in milliseconds of a clock that never
// goes back.
//
// A Stock holds prefetched tokens that are not admitted yet. They may be admitted until they are a horizon
// old, from the start of their write. The rest then lapses. Nothing is ever given back to the bucket. After a
// give-back and a new debit an old token would be young, the queue of admissions would drain meanwhile, and
// the excess over the burst would grow without bound. Because none is given back, the excess is at most
// refill × horizon, plus the give-backs of leases within the horizon (docs/design/prefetch.md). Lapsed tokens
// come off the counter, so that usage stays equal to the admitted amounts.
//
//	stock.go   the held tokens, and when they lapse
//	demand.go  the need of calls, and the share of the bucket's traffic by this process
//	want.go    the amounts to debit with the next write
package prefetch
