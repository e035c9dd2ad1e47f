// Package ledger counts money: what calls cost, and what is credited and charged by hand,
// each exactly once, and it knows what is counted.
//
// A write is an [Operation], made by an [Account] (where the calls of one label are
// counted on one day) from values alone. [Ledger.Write] hands it to a lane. A lane has
// one transaction of this process in flight for a set of counters; what queues up
// meanwhile is composed into the next (compose). The store's conditions decide, and
// resolve says what a refusal means: which operations are over, which are tried again.
// Operation, transaction and decision are pure: no store, no clock.
//
//	Account → Operation → lane → compose → store → resolve → Verdict
//
// A [Board] is what is known of one scope's spend: the sums read last, and the writes
// acknowledged since that read began. [Ledger.SumDays] reads days that are over, from
// their closed totals or their shards.
//
// Nothing here knows a price, a quota or a configuration: amounts and calendars come as
// values, verdicts and sums go back as values.
//
// # The life of an operation
//
//	waiting    in a lane's queue; a record whose caller leaves is withdrawn
//	in flight  in a transaction, again after each refusal that does not end it
//	finished   its verdict is set, its caller hears of it
//	abandoned  its caller left while it was in flight: it is counted all the same
//
// # Locks
//
// lanes.mu guards the lanes and their queues, Board.mu what a board knows. Neither is held
// while the store is asked, or taken under the other.
package ledger
