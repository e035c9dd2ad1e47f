// Package lane carries a process's writes to its buckets. A bucket has one lane, which remembers the
// last image and sends one write at a time. Ops that arrive while one is in flight ride in the next.
// docs/design/lanes.md says why.
//
// Data flows one way: the limiter gives an op to a lane, the lane decides a write by package plan and
// gives it to a Store, and the outcome goes back as a Result. A lane knows nothing of the limiter. The
// reason why an op ended is a *Failure, from which the limiter makes the error that users see.
//
// # Files, in the order in which data visits them
//
//	store.go        the lanes' interface to the repository; the answer to a write
//	op.go           a take or an adjust, and its result
//	new.go          registry.go  the lanes of a process, and their shared state
//	lane.go         the one object of a bucket: callers ask it, and ops end in it
//	run.go          the straight way of a lane: begin a turn, carry it, book its answer
//	turn.go         one batch: a copy of the lane's knowledge, the reads before its decision, and its write in
//	                flight, until the outcome is known
//	beside.go       decisions outside the lane's own work: transactions, dry runs, waiters
//
// The following files know no lane, and each part has its own fields and tests:
//
//	site.go         probe.go  the place of the bucket: how it is read, viewed and probed; whether it answers;
//	                the work in flight on all buckets
//	queue.go        the ops that have not ended, how each ends, and the batch that one write carries
//	ride.go         give-backs that wait for a write that another op needs
//	extra.go        the parts of a lane that few buckets need, and the events that it passes on to them
//	gather.go       the wait after a write for callers that come back at once
//	passes.go       the turns that all lanes of a process may have in flight
//	memory.go       the lane's memory of the bucket: the last image, its pause; a take denied without a request
//	fates.go        the decision of a turn: its write, and the fates of its ops
//	lost_answer.go  the tries of a write and their ids, without I/O: the steps after a lost answer
//	wait_line.go    the waiters, and their order; place.go  the places of denied callers between them
//	contest.go      the competition of a line with the waiters of other processes
//	slots.go        held_slots.go  the slots of the process's open calls, and the writes that keep them
//	denial_mark.go  the marks of denials, for alerts
//	models.go       whether the role may write units and counters by model
//	pacer.go        the spacing of writes while the partition throttles
//	ahead.go        stock.go  prefetched tokens and their fate
//	told.go         untold.go  tally.go  pending updates, and amounts in doubt; tell.go writes the updates
//	share.go        the process's share, which admits calls during an outage
//	unsettled.go    the estimates that quotas are charged for open calls
//	failure.go      the reasons why an op ended without an answer of DynamoDB
//
// # States
//
// An op, guarded by its lane's mutex:
//
//	queued   waits in the queue            next write → carried; caller leaves → gone; bucket silent → done
//	carried  a turn has it: it is decided, landed, denied, failed → done; refused → queued; bucket silent → pending
//	pending  its caller is answered, and   outcome known → gone, and onOutcome called
//	         the write is in flight
//	done     its result is there           final; done is closed
//	gone     nothing remains to be done    final
//
// A caller that leaves a carried op abandons it: its grant is given back.
//
// A waiter, guarded by the lock of its line:
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
// No lock is held over a request or a wait. Locks are taken in this order: Lane.mu, and last that of
// its line or pacer, told.mu, or one of the registry's. Notices of outcomes run after Lane.mu has been
// released, because they take locks of their own. A turn holds no lock: beginTurn copies its input from the
// lane, and recordAnswer writes its outcome back. The goroutine that runs the lane reads the states of the
// ops that it carries without the lock.
package lane
