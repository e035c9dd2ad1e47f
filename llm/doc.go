// Package llm makes one model call under a rate limit and a budget: a lease of package
// dynalimit, a label of package budget, and one usage record for both.
//
// Guard.Start picks the label and acquires the limits. A denied call consumes nothing.
// Guard.Do runs a function between Start and the settlement and covers its
// errors and panics; Call.Meter counts a streamed reply. A Guard works with the limiter
// alone, with the budget alone, or with both.
//
// # Order of a call
//
// Start takes the budget's recommended label from memory, unless the request names one. The
// budget only steers: no write to it delays a call. Then Start acquires the limits. A
// process that dies before the settlement leaves an estimate in the buckets, and their refill
// replaces it.
//
// Call.Settle corrects the lease, also after the caller's context has ended, and hands the
// record over. The guard sends it until the budget has it, and it counts once. Records that the
// budget refuses for good go to Options.OnRefused. Guard.Close waits for pending records. A
// call that is Sent is never given back as a whole; Call.Failed decides the charge of a call without a
// usage. SettleSoon does all of it behind the caller's answer, and Options.OnSettled receives the
// result. A call that is cut before its first token keeps its prompt's estimate, because providers bill
// a prompt that was on its way; Guard.Do has the details.
//
// # Estimates and small limits
//
// Before a call only the length of the reply is unknown. The limits are charged a
// likely length, at most their burst: a model that may answer with 64,000 tokens
// can be called under a limit of 10,000 a minute. Further tokens are charged when
// the call settles and delay later calls. The prompt is not capped: one that exceeds a
// burst is refused for good.
//
// # Limits on money
//
// Cost measures a call in micro-dollars. Before the call it is the highest possible cost, and
// nothing lowers it, so the limit holds. Estimate documents the bounds.
package llm
