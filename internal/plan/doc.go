// Package plan decides the write to a bucket from its last image, its configuration, the time and the
// requests of a batch. It sends nothing, stores nothing and reads no clock: time is an argument, so that
// tests can decide at any moment. docs/design/protocol.md gives the reason of each bound.
//
// The underlying design has four write paths. Its Create is Create here, Normal is a claim, and Adjust a spend into
// debt or a give-back. The usual write of this package, the spend, is its Retry.
//
//	amounts.go   lists of amounts by limit
//	decide.go    Decide: the fate of each ask of a caller, and the write that carries the admitted ones
//	row.go       one limit in one decision: its sums, its facts, its change
//	rows.go      the rows of a decision: which takes fit in addition to the sums
//	quota.go     what differs for a calendar quota: the write of a window, and the claim that opens one
//	slots.go     calls in flight: the slots of a process's open calls, and their moves by a write
//	money.go     model.go  units of money, and counters by model
//	uncharged.go amounts that go to counters alone: limits in shadow, deepest debts
//	config.go    the configuration of a bucket
//	phase.go     a configuration between two ends of raises
//	remembered.go the last denial, for callers of the same millisecond
//	view.go      an image under a configuration, at one instant; its reading for statuses and forecasts; when
//	             to read a bucket before the write
//	forecast.go  the promises to waiters, and the wait until an amount fits
//	write.go     the shapes of a write; composes a write: create, spend, claim, or nothing; the spend, and when
//	             the bucket may be deleted after it
//	claim.go     the other update of a bucket that exists
//	after.go     the image that a write leaves when DynamoDB returns none
//	pacing.go    how long a lane waits between its writes when its partition throttles
//	waiting.go   when waiters of several processes try, by the note in the item; waiting_slots.go for slots
//	crowding.go  how far below full to write when processes collide at full
package plan
