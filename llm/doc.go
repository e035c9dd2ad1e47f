// Package llm makes one model call under a rate limit and a budget: a lease of
// package dynalimit and a reservation of package budget, both settled from one
// usage record.
//
// Guard.Start reserves the money, then acquires the limits: nothing is
// consumed by a call that either denies. Guard.Do runs a function between
// Start and the settlement and covers its errors and panics; Call.Meter counts
// a streamed reply. A Guard works with the limiter alone, with the budget
// alone, or with both.
//
// # The order of things
//
// Start picks the label the budget recommends, unless the request names one,
// and prices the call's largest cost at it. Under hard enforcement that is
// reserved, under soft enforcement the label must have room. Then the limits
// are acquired; when they deny, the reservation is released. A process that
// dies in between leaves a reservation that ends with its hold, and an
// estimate in the buckets, which their refill makes good.
//
// Call.Settle writes the record to both at once: the lease keeps what was used
// and returns the rest, the reservation becomes the record's cost. Both are
// tried whatever happens to the other, when the caller's context has ended,
// too. What could not be written is in an *UnsettledError; Settle again writes
// only that. A call that is cut before its first token keeps its prompt's
// estimate, because providers bill a prompt that was on its way; Guard.Do says
// when.
//
// # Estimates and small limits
//
// What is unknown before a call is the length of the reply. Its most counts
// against the budget, which must never be exceeded. Against the limits counts
// what is likely, and never more than a limit's burst: a model that may answer
// with 64,000 tokens can be called under a limit of 10,000 a minute. What is
// used beyond that is charged when the call settles and delays later calls.
// The prompt is not capped: one that exceeds a burst is refused for good.
package llm
