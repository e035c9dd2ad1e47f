// Package plan decides the write to a bucket from its last image, its configuration, the time and the
// requests of a batch. It sends nothing, stores nothing and reads no clock: time is an argument, so that
// tests can decide at any moment. docs/design/protocol.md gives the reason of each bound.
//
// The underlying design has four write paths. Its Create is Create here, Normal is a claim, Retry a spend,
// and Adjust a spend into debt or a give-back.
//
//	amounts.go   lists of amounts by limit
//	decide.go    Decide: the fate of each ask of a caller, and the write that carries the admitted ones
//	row.go       one limit in one decision: its sums, its facts, its change
//	rows.go      the rows of a decision: which takes fit in addition to the sums
//	uncharged.go amounts that go to counters alone: limits in shadow, deepest debts
//	config.go    the configuration of a bucket
//	view.go      an image under a configuration, at one instant
//	reading.go   the state of a bucket by an answer, for statuses and forecasts
//	forecast.go  the promises to waiters, and the wait until an amount fits
//	write.go     the shapes of a write; composes a write: create, spend, claim, or nothing
//	spend.go     claim.go   the two updates of a bucket that exists
//	after.go     the image that a write leaves when DynamoDB returns none
//	ttl.go       when a bucket may be deleted, and how deep in debt a ttl lets it be
//	pacing.go    how long a lane waits between its writes when its partition throttles
//	looking.go   when to read a bucket before the write
//	spread.go    the delay of waiters' tries behind the exact time
//	crowding.go  how far below full to write when processes collide at full
package plan
