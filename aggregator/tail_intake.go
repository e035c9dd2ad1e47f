package aggregator

import (
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// mostRead is how many records DynamoDB gives at once.
	mostRead = 1000
	// readAgain is the pause before a shard is read again that has more: DynamoDB allows
	// five reads of a shard in a second.
	readAgain = 200 * time.Millisecond
	// recent is how old the last record may be of a shard that is read to its end.
	recent = 5 * time.Second
)

// intake is the shared state of the readers of all shards.
type intake struct {
	stream   tableStream
	points   checkpoints
	process  ProcessFunc
	options  TailOptions
	observer *shielded
	// room bounds the gathered records.
	room *semaphore.Weighted
	// reading is how many shards are being read.
	reading atomic.Int64
	// disordered counts the records with numbers that did not rise.
	disordered atomic.Int64
}

// readLimit returns how many records one read may request while this number of shards is read: 1 to 1,000. All
// reads together then take at most half of the room.
func (i *intake) readLimit(shards int64) int64 {
	return max(1, min(mostRead, int64(i.options.MaxRecords)/(2*max(1, shards))))
}
