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
//	store.go        what lanes need of the repository; the answer to a write
//	op.go           a take or an adjust, and its result; ids.go, the ids of writes
//	new.go          registry.go  the lanes of a process, and what they share; work.go, what Close waits for
//	lane.go         the one object of a bucket: callers ask it, ops end in it
//	recall.go       a take decided from memory: what denies without a request
//	run.go          who drives a lane, in turn
//	turn.go         one batch: look, decide, send
//	send.go         its write on its way
//	beside.go       what is decided beside the lane's own work: transactions, dry runs, waiters
//
// The circle of lane, registry, run, turn and send ends here. What follows knows no lane, and
// each part has its own fields and tests:
//
//	queue.go        the ops that have not ended, and how each ends
//	gather.go       who is waited for after a write, because he comes back at once
//	batch.go        the ops of several callers that one write carries
//	sight.go        what is known of the bucket
//	access.go       how it is read, and put under the configuration in force
//	decide.go       judge.go  what becomes of the ops by package plan, and by the answer to their write; pure
//	lost_answer.go  the tries of a write, without I/O: what follows when an answer is lost
//	wait_line.go    the waiters, and who of them goes first
//	contact.go      whether the bucket answers
//	pacer.go        when its partition throttles: how writes are spaced
//	ahead.go        stock.go  what is debited ahead of calls, and what becomes of it
//	told.go         untold.go  tally.go  what buckets are told later, and what is in doubt; tell.go writes it
//	share.go        what this process admits on its own meanwhile
//	failure.go      why an op ended without an answer of DynamoDB
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
// that of its line or pacer, told.mu, or one of the registry's. Notices of outcomes run after
// Lane.mu has been released, because they take locks of their own. Whoever set running
// owns what the lane has learnt from its answers, and reads the image without the lock.
package lane
