// Package laws is the harness of TestLaws. It plays generated histories of several limiters on one table, in
// virtual time, and judges the committed writes by the laws of docs/design/protocol.md. It is for tests
// alone: the test itself is tests/laws_test.go. It inspects limiters through package inside.
//
// # How a history runs
//
// [Play] makes a history from a seed and a [Mode]. A history is a table in process, an operator and two to
// five limiters, each with its own clock and caches. Up to four workers take random steps: they acquire,
// wait, adjust, consume, settle and roll back. Meanwhile limits change, items expire, entities are deleted,
// requests fail and processes crash. An oracle observes the requests of every lane and transaction, their
// outcomes, and every committed write, in order. At the end the judge replays the writes. It tracks the true
// state of every limit, compares it with the bucket, and returns a [Report] of the broken laws.
//
// # Where to look
//
//	modes.go     what a history has besides concurrent clients
//	play.go      one history from its seed to its report, and which seeds there are
//	history.go   limiters, configuration and rest, and which errors may come of a call
//	worker.go    who calls; step.go what it does: acquire and wait
//	amend.go     what it does with leases: adjust, consume, end, end twice
//	fill.go      what it does as an administrator; stream.go calls of one kind at a rate
//	operator.go  what happens around them: reconfigure, delete, crash
//	teams.go     parents and plans that calls give, and records that come and go
//	harness.go   the parts that package outside uses too
//	weather.go   what goes wrong with requests
//	oracle.go    what is heard: what limiters send, what the store commits
//	truth.go     one limit as it really is
//	judge.go     the replay of the writes, and the laws of a whole write
//	limits.go    the laws of one limit: the leaky queue, and what a bucket may forgo when
//	             clients collide at full (clashes.go)
//	quotas.go    the laws of a limit that is a calendar quota, or was one; calendar.go its windows,
//	             by package time and what an item says; turns.go when they begin in a history
//	filled.go    the laws of buckets that an administrator fills
//	served.go    what is admitted from memory
//	stakes.go    the laws of one lease (stake.go): no more back than was debited for it
//	ledger.go    the laws of the end: what callers were told and hold
//	honest.go    in the quiet after it: when a denied call succeeds
//	rules        the protocol less a rule, which must break a law
//
// # Who checks which law
//
//	L1   limits.go: no grant lifts a queue above the burst; judge.go: what expires owes nothing
//	     With a horizon it is judged when a call is admitted (served.go): it may lie
//	     above by what is refilled in it, and given back or charged unasked
//	     Of a quota, in each stored window: quotas.go
//	L2   limits.go: without faults a bucket holds burst − queue; quotas.go: a quota holds
//	     n − used, to the millitoken and in every mode
//	L3   ledger.go: callers hold what is debited; stake.go: of each lease
//	L4   limits.go: the counter moves by what was charged and given back; ledger.go: nothing
//	     is left on it of what was debited ahead and never admitted
//	L5   judge.go: a give-back lands once
//	L6   honest.go: a denial's wait is right to the millisecond; history.go: it names a limit
//	     that denies; worker.go: a wait gives up only when its turn comes too late
//	L7   judge.go: no write makes a ghost; limits.go: a limit appears full, less what is
//	     taken; stakes.go: nothing is given back that was not debited for this lease, in
//	     this incarnation of the bucket
//	L8   judge.go: grants are decided under a configuration in force; limits.go: a limit
//	     that is removed owes nothing
//	L9   judge.go: what was granted landed; ledger.go: nobody was granted more than that;
//	     served.go: memory admits only what was debited
//	L10  judge.go: the refill instant does not go back
//
// # How to play one again
//
// A failure prints its mode and seed; DYNALIMIT_SEED plays that history alone, and
// DYNALIMIT_HISTORIES says how many there are, over all modes (500):
//
//	DYNALIMIT_SEED=925 go test -run '^TestLaws$/^faults$' -v ./tests
//
// Goroutines are scheduled by the machine, so that a seed may need several runs.
package laws
