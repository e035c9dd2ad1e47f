// Package lane carries a process's writes to its buckets. A bucket has one lane,
// which remembers the last image and sends one write at a time: what arrives while
// one is in flight rides in the next. docs/design/lanes.md says why.
//
// Data flows one way: the limiter gives an op to a lane, the lane decides a write
// by package plan and gives it to a Store, and what came of it goes back as a
// Result. A lane knows nothing of the limiter: why an op ended is a *Failure, of
// which the limiter makes the error that users see.
//
// # Files, in the order in which data visits them
//
//	store.go     what lanes need of the repository; the answer to a write
//	registry.go  the lanes of a process
//	op.go        a take or an adjust, and its result
//	lane.go      the queue: who drives a lane, how an op ends
//	batch.go     what the next write may carry
//	carry.go     one batch: look, decide, send
//	settle.go    what an answer means for the ops that a write carried
//	sight.go     what is known of the bucket
//	view.go      what is known, under the configuration in force
//	choose.go    the decision, pure; transactions use it too
//	sums.go      incarnation.go  which adjusts a write may carry
//	send.go      the tries of a write; lost_answer.go, how it recognises its own
//	recall.go    denials from memory
//	pacer.go     pace.go  paced.go  when its partition throttles: turns, and the list of such lanes
//	contact.go   whether the bucket answers; trip.go, when not: callers leave, outcomes are followed
//	line.go      the waiters
//	told.go      untold.go  tell.go  tally.go  what buckets are told later, and what is in doubt
//	prefetch.go  lapse.go  what is debited ahead of calls, and what becomes of it
//	share.go     what this process admits on its own meanwhile
//	failure.go   why an op ended without an answer of DynamoDB
//	seam.go      what tests of whole limiters look at
//
// # States
//
// An op, guarded by its lane's mutex:
//
//	queued   waits in the queue            next write → carried; caller leaves → gone; bucket silent → done
//	carried  a write under way carries it  landed, denied, failed → done; refused → queued; bucket silent → pending
//	pending  its caller was told that the  outcome known → gone, and onOutcome called
//	         write is under way
//	done     its result is there           final; done is closed
//	gone     nothing remains to be done    final
//
// A caller who leaves a carried op abandons it: what it is granted is given back.
//
// A waiter, guarded by the lock of the line in which it stands:
//
//	behind   others before it wait for a limit it needs  they leave or are served → head; fits beside them → called
//	head     it alone asks the store                     its take lands → served; another line denies it longer → quits
//	called   may try once, in the write of the head      tried → behind
//	served   a landed write carried it                   quits
//
// A lane, guarded by its mutex:
//
//	resting  no goroutine; others may give it images  an op → running
//	running  one goroutine, or a caller, carries it,  queue empty → resting; bucket silent → tripped
//	         or waits for its turn
//	tripped  nobody queues; a probe is sent           a probe is answered → running or resting
//
// # Locks
//
// No lock is held over a request or a wait. Locks are taken in this order: Lane.mu, and last
// that of its line or pacer, told.mu, Registry.mu or tally.mu. Notices of outcomes run after
// Lane.mu has been released, because they take locks of their own. Whoever set running
// owns the fields below "belongs to the running goroutine", and reads the image without
// the lock.
package lane
