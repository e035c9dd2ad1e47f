// Package ledger counts money: the costs of calls, and manual credits and charges. It counts
// each exactly once and caches the sums.
//
// A write is an [Operation]. An [Account] (the counters of one label on one day) makes it from
// plain values. [Ledger.Write] puts it into the queue of a lane. A lane sends transactions for
// one set of counters. Operations that queue up meanwhile go into the next transaction
// (compose). The store's conditions decide, and resolveRefusals interprets a refusal: it
// finishes some operations and returns the others for another try. Operation, transaction and
// decision are pure: they use neither the store nor a clock.
//
//	Account → Operation → lane → compose → store → resolveRefusals → Verdict
//
// A [Board] caches one scope's spend: the sums of the last read, and the writes acknowledged
// since that read began. [Ledger.SumDays] reads past days from their closed totals or their
// shards.
//
// The package knows neither prices nor quotas nor configurations: amounts and calendars come in
// as values, verdicts and sums go out as values.
//
// # The life of an operation
//
//	waiting    in a lane's queue; a record is withdrawn when its caller leaves
//	in flight  in a transaction, and in another after a refusal that does not finish it
//	finished   its verdict is set and its caller returns
//	abandoned  its caller left while it was in flight: it is counted all the same
//
// # Locks
//
// lanes.mu guards the lanes and their queues, Board.mu the content of a board. Neither is held
// during a request, and neither is taken while the other is held.
package ledger
