package ddbmem

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// streamLife is how long stream records are kept.
const streamLife = 24 * time.Hour

// stream is the change log of one table, in one shard.
type stream struct {
	table    string
	keys     keySchema
	view     string
	label    string
	created  time.Time
	disabled time.Time // zero while enabled
	records  []*streamRecord
	next     int64 // sequence of the next record
	first    int64 // sequence of the first record ever
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

// openStream gives t a stream of its own, with a label that no other has.
func (db *DB) openStream(t *table, view string) {
	db.lastStream++
	const firstSequence = 100000000000000000
	s := &stream{
		table: t.name, keys: t.keySchema, view: view, created: db.now(),
		first: firstSequence, next: firstSequence,
	}
	// The number tells streams apart that were opened in the same millisecond.
	s.label = s.created.UTC().Format("2006-01-02T15:04:05.000") + fmt.Sprintf("%03d", db.lastStream%1000)
	t.stream = s
	db.streams = append(db.streams, s)
}

func (s *stream) arn() string {
	return "arn:aws:dynamodb:us-east-1:000000000000:table/" + s.table + "/stream/" + s.label
}

// shard is the id of the stream's only shard.
func (s *stream) shard() string { return fmt.Sprintf("shardId-%020d-%08x", s.created.UnixMilli(), 1) }

func (s *stream) disable(at time.Time) { s.disabled = at }

// record logs a change; one that leaves the item as it was is none.
func (s *stream) record(at time.Time, ch *change) {
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
	s.trim(at)
	s.records = append(s.records, r)
}

// trim drops the records older than a day.
func (s *stream) trim(at time.Time) {
	n := 0
	for n < len(s.records) && at.Sub(s.records[n].at) > streamLife {
		n++
	}
	s.records = slices.Delete(s.records, 0, n)
}

// horizon is the sequence of the oldest record kept.
func (s *stream) horizon() int64 {
	if len(s.records) > 0 {
		return s.records[0].sequence
	}
	return s.next
}

// from are the records from a sequence number on.
func (s *stream) from(sequence int64) []*streamRecord {
	i, _ := slices.BinarySearchFunc(s.records, sequence, func(r *streamRecord, sequence int64) int {
		if r.sequence < sequence {
			return -1
		}
		return 1
	})
	return s.records[i:]
}
