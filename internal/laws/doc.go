// Package laws is the harness of TestLaws. It plays generated histories of several limiters on one table, in
// virtual time, and judges the committed writes by the laws of docs/design/protocol.md. It is for tests
// alone: the test itself is limiter_laws_test.go of package dynalimit, which lets it look inside limiters.
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
//	modes.go     the troubles of a history
//	play.go      one history from its seed to its report; the choice of seeds
//	history.go   limiters, configuration and rest; the allowed errors of calls
//	worker.go    the callers; step.go their steps: acquire and wait
//	amend.go     their calls of leases: adjust, consume, end, end twice
//	fill.go      their administration; stream.go calls of one kind at a rate
//	operator.go  the events around them: reconfigure, delete, crash
//	group.go     a group of resources that comes and goes; buckets.go the names of buckets
//	teams.go     parents and plans that calls give, and records that come and go
//	inside.go    the inner state that a history looks into
//	harness.go   the parts that package outside uses too
//	weather.go   the faults of requests
//	oracle.go    the record of requests and committed writes
//	truth.go     the true state of one limit
//	judge.go     the replay of the writes, and the laws of a whole write
//	limits.go    the laws of one limit: the leaky queue, and the slack that a bucket may forgo
//	             when clients collide at full (clashes.go)
//	quotas.go    the laws of a limit that is or was a calendar quota; calendar.go its windows,
//	             from package time and the items; turns.go their starts in a history
//	filled.go    the laws of buckets that an administrator fills
//	served.go    the admissions from memory
//	stakes.go    the laws of one lease (stake.go): it gives back no more than its debits
//	ledger.go    the laws of the end: grants and holdings of callers
//	honest.go    in the quiet after it: the waits of denied calls
//	rules        the protocol less a rule, which must break a law
//
// # The check of each law
//
//	L1   limits.go: no grant lifts a queue above the burst; judge.go: an expired bucket owes nothing
//	     With a horizon it is judged at the admission of a call (served.go): the queue may
//	     exceed the burst by the refill, give-backs and unrequested charges of a horizon
//	     Of a quota, in each stored window: quotas.go
//	L2   limits.go: without faults a bucket holds burst − queue; quotas.go: a quota holds
//	     n − used, to the millitoken and in every mode
//	L3   ledger.go: callers hold the debited amounts; stake.go: the same of each lease
//	L4   limits.go: the counter moves by the charges and give-backs; ledger.go: prefetched
//	     tokens that were never admitted come off it
//	L5   judge.go: a give-back lands once
//	L6   honest.go: a denial's wait is right to the millisecond; history.go: it names a limit
//	     that denies; worker.go: a wait gives up only when its turn comes too late
//	L7   judge.go: no write makes a ghost; limits.go: a limit appears full, less its
//	     charges; stakes.go: a lease gives back only its debits in this incarnation of the
//	     bucket
//	L8   judge.go: grants are decided under a configuration in force; limits.go: a limit
//	     that is removed owes nothing
//	L9   judge.go: a granted write landed; ledger.go: callers were granted no more than that;
//	     served.go: memory admits only debited tokens
//	L10  judge.go: the refill instant does not go back
//
// # How to play one again
//
// A failure prints its mode and seed; DYNALIMIT_SEED plays that history alone, and
// DYNALIMIT_HISTORIES says how many there are, over all modes (60):
//
//	DYNALIMIT_SEED=925 go test -run '^TestLaws$/^faults$' -v .
//
// Goroutines are scheduled by the machine, so that a seed may need several runs.
package laws
