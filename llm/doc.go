// Package llm makes one model call under a rate limit and a budget: a lease of package
// dynalimit, a label of package budget, and one usage record for both.
//
// Guard.Start picks the label and acquires the limits: nothing is consumed by a call that
// either denies. Guard.Do runs a function between Start and the settlement and covers its
// errors and panics; Call.Meter counts a streamed reply. A Guard works with the limiter
// alone, with the budget alone, or with both.
//
// # The order of things
//
// Start takes the label the budget recommends, unless the request names one, from memory:
// the budget steers, and stands before no call with a write. Then the limits are acquired. A
// process that dies in between leaves an estimate in the buckets, which their refill makes
// good.
//
// Call.Settle corrects the lease, also when the caller's context has ended, and hands the
// record over: the guard sends it until the budget has it, and it is counted once. What is
// refused for good goes to Options.OnRefused. Guard.Close waits for what is under way. A
// call that is Sent is never given back as a whole; Call.Failed knows what stays of one without a
// usage. SettleSoon does it all behind the caller's answer, and Options.OnSettled hears of it. A
// call that is cut before its first token keeps its prompt's estimate, because providers bill
// a prompt that was on its way; Guard.Do says when.
//
// # Estimates and small limits
//
// What is unknown before a call is the length of the reply. Against the limits counts what
// is likely, and never more than a limit's burst: a model that may answer with 64,000 tokens
// can be called under a limit of 10,000 a minute. What is used beyond that is charged when
// the call settles and delays later calls. The prompt is not capped: one that exceeds a
// burst is refused for good.
//
// # Limits on money
//
// Cost measures a call in micro-dollars, for a limit that is to hold: before the call it is the
// most that the call can cost, and nothing lowers it. The rest of Estimate says what bounds it.
package llm
