package ddbmem

import (
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// streamLife is how long stream records are kept.
const streamLife = 24 * time.Hour

// firstSequence is the sequence number of a stream's first record.
const firstSequence = 100000000000000000

// stream is the change log of one table.
type stream struct {
	table    string
	keys     keySchema
	view     string
	label    string
	created  time.Time
	disabled time.Time      // zero while enabled
	shards   []*streamShard // in the order in which they were opened
	opened   int            // how many shards were opened
	next     int64          // sequence of the next record, whichever shard it is for
}

// streamRecord is one change. Its images are those the stream's view shows.
type streamRecord struct {
	sequence int64
	event    string // INSERT, MODIFY or REMOVE
	at       time.Time
	keys     value.Map
	old, new value.Map
	size     int
	expired  bool
}

// arn returns the stream's ARN: its table's, with the label.
func (s *stream) arn() string {
	return "arn:aws:dynamodb:us-east-1:000000000000:table/" + s.table + "/stream/" + s.label
}

// disable ends the stream at a time and closes its shards. Their records stay readable until they are
// trimmed.
func (s *stream) disable(at time.Time) {
	s.disabled = at
	for _, shard := range s.shards {
		shard.close(at)
	}
}

// recordChange appends a change to the open shard of its partition key, with the next sequence number and the
// images of the stream's view. It drops records older than a day. A change that leaves the item unchanged does
// nothing.
func (s *stream) recordChange(at time.Time, ch *change) {
	r := &streamRecord{event: "MODIFY", at: at, expired: ch.expired, keys: value.Map{}}
	old := ch.oldItem()
	switch {
	case old == nil:
		r.event = "INSERT"
	case ch.new == nil:
		r.event = "REMOVE"
	case old.Equal(ch.new):
		return
	}
	some := ch.new
	if some == nil {
		some = old
	}
	for _, name := range s.keys.names() {
		r.keys[name] = some[name]
	}
	if s.view == "NEW_AND_OLD_IMAGES" || s.view == "OLD_IMAGE" {
		r.old = old
	}
	if s.view == "NEW_AND_OLD_IMAGES" || s.view == "NEW_IMAGE" {
		r.new = ch.new
	}
	r.size = r.keys.Size() + r.old.Size() + r.new.Size()
	r.sequence = s.next
	s.next++
	s.trim(at.Add(-streamLife))
	s.openShardOf(r.keys[s.keys.hash]).appendRecord(r)
}
