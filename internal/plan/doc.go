// Package plan decides what to write to a bucket, from its last image, its
// configuration, the time and what a batch asks for. It sends nothing, keeps
// nothing and reads no clock: time is an argument, so that every decision can be
// tested at every moment. docs/design/protocol.md says why each bound is there.
//
// The design that this follows has four write paths: its Create is Create here, Normal is a
// claim, Retry a spend, and Adjust a spend into debt or a give-back.
//
//	amounts.go   lists of amounts by limit
//	decide.go    Decide: the fate of each ask of a caller, and the write that carries the admitted ones
//	row.go       one limit in one decision: its sums, its facts, its change
//	rows.go      the rows of a decision: which takes fit beside the sums
//	uncharged.go amounts that go to counters alone: limits in shadow, deepest debts
//	config.go    what the configuration wants a bucket to be
//	view.go      an image under a configuration, at one instant
//	reading.go   what an answer showed of a bucket, for statuses and forecasts
//	forecast.go  what is left to waiters, and when a limit will hold an amount
//	shape.go     the shapes of a write
//	write.go     composes a write: create, spend, claim, or nothing
//	spend.go     claim.go   the two updates of a bucket that exists
//	after.go     the image that a write leaves when DynamoDB returns none
//	ttl.go       when a bucket may be deleted, and how deep in debt a ttl lets it be
//	pacing.go    how long a lane waits between its writes when its partition throttles
//	looking.go   when a bucket is to be read before it is written
//	spread.go    how long after the exact time the waiters try
//	crowding.go  how far below full to write when processes collide at full
package plan
