package aggregator

import "time"

// TailObserver receives the events of a Tail, for metrics and logs. Every function is optional.
// They are called by several goroutines, one for each shard: they must be quick
// and safe for concurrent use. One that panics misses its event, and Run fails with the panic at
// its end.
type TailObserver struct {
	// ShardChanged is called when this Tail takes a shard, and when it is done with it.
	ShardChanged func(ShardChange)
	// Lagged is called for each read of a shard, every TailOptions.Poll while its records are processed,
	// and again after they were.
	Lagged func(ShardLag)
	// Processed is called after each call of the ProcessFunc: its Result has the gaps.
	Processed func(RecordsProcessed)
	// Alerted is called for each alert that the Processor stored, or could not store (AlertDecided.Err).
	Alerted func(AlertDecided)
	// Skipped is called for a record that was given up because it can never be processed.
	Skipped func(RecordSkipped)
	// Trimmed is called when records of a shard were gone from the stream before they were
	// read, or may have been: the shard is gone, and no Tail came to its end. A Processor reports
	// the gap at the next record of each bucket.
	Trimmed func(ShardTrimmed)
	// Disordered is called for a record with a sequence number that is not above an earlier
	// one's. It is processed all the same, though a Processor may take it for a repeated one.
	Disordered func(RecordDisordered)
	// Retrying is called for a failure that is retried.
	Retrying func(TailRetry)
}

// Shard names a shard of a table's stream. It is a plain value.
type Shard struct {
	// Stream is the stream's label, the end of its ARN.
	Stream string
	// ID is the shard's id.
	ID string
}

// ShardState is the state of a shard.
type ShardState string

// The states.
const (
	// ShardTaken means that this Tail begins to read it.
	ShardTaken ShardState = "taken"
	// ShardFinished means that it has ended, and that all of it was processed.
	ShardFinished ShardState = "finished"
	// ShardReleased means that it was left to others, because this Tail stops.
	ShardReleased ShardState = "released"
	// ShardLost means that the lease ended before the work: another Tail may read it now.
	ShardLost ShardState = "lost"
)

// String returns the name of the state.
func (s ShardState) String() string { return string(s) }

// ShardChange is a change of a shard's state.
type ShardChange struct {
	// Shard is which.
	Shard Shard
	// State is its new state.
	State ShardState
	// Held is how many shards this Tail reads now.
	Held int
	// Err is why it was lost; nil otherwise.
	Err error
}

// ShardLag says how far a shard was read.
type ShardLag struct {
	// Shard is which.
	Shard Shard
	// Last is the time of the last record that was read; zero if none was yet.
	Last time.Time
	// Behind is the waiting time of the oldest record that was read and not
	// processed. Without one, if the shard has more, it is the age of the last one.
	// 0 means that no record is known to wait.
	Behind time.Duration
	// Gathered is how many records wait to be processed.
	Gathered int
}

// RecordsProcessed is the result of a call of the ProcessFunc.
type RecordsProcessed struct {
	// Shard is the shard of the records.
	Shard Shard
	// Records is how many were given.
	Records int
	// Result is the result of the ProcessFunc. Its Failures are given again, unless they
	// are skipped.
	Result Result
	// Duration is the time it took.
	Duration time.Duration
}

// RecordSkipped says that a record was given up.
type RecordSkipped struct {
	// Shard is where it was read.
	Shard Shard
	// Record is the record. One that cannot be converted has its EventID, Sequence and Shard alone.
	Record Record
	// Err is why.
	Err error
	// Tries is how often it was tried.
	Tries int
}

// ShardTrimmed says that records were gone before they were read.
type ShardTrimmed struct {
	// Shard is the shard of the records.
	Shard Shard
	// After is the sequence number of the last record that was read; "" for none.
	After string
	// Err is DynamoDB's error.
	Err error
}

// RecordDisordered says that sequence numbers do not rise.
type RecordDisordered struct {
	// Shard is where the record was read.
	Shard Shard
	// Sequence is its number, and After that of one before it, in the shard or in its
	// parents.
	Sequence, After string
	// Count is how many such records this Tail has read, this one included.
	Count int64
}

// TailRetry says that something failed that is tried again.
type TailRetry struct {
	// Shard is the concerned shard; zero for the whole stream.
	Shard Shard
	// Op is the operation, such as "read the shard".
	Op string
	// Try counts the failures in a row, from 1.
	Try int
	// Err is the failure.
	Err error
}
