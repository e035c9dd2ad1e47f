package ddbmem

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// Limits of reading a stream.
const (
	maxStreamRecords = 1000
	maxStreamBytes   = 1 << 20
	maxStreamShards  = 100
	iteratorLife     = 15 * time.Minute
)

// callWithStream finds the stream with the ARN, drops its records older than a day, and calls answer with it
// under the commit lock. It returns answer's error. It fails first if reading the request failed or the stream
// does not exist.
func (c *call) callWithStream(arn string, answer func(*stream) error) error {
	if err := c.in.Err(); err != nil {
		return err
	}
	c.db.mu.Lock() // finding it trims it
	defer c.db.mu.Unlock()
	s, err := c.db.findStream(arn, c.at)
	if err != nil {
		return err
	}
	return answer(s)
}

// findStream returns the stream with the ARN after dropping its records older than a day at the time at. It
// fails with ResourceNotFoundException. The commit lock must be held for writing.
func (e *engine) findStream(arn string, at time.Time) (*stream, error) {
	for _, s := range e.streams {
		if s.arn() == arn {
			s.trim(at.Add(-streamLife))
			return s, nil
		}
	}
	return nil, newError("ResourceNotFoundException", "Requested resource not found: Stream: %s not found", arn)
}

// appendIdentity appends the JSON members StreamArn and StreamLabel to b.
func (s *stream) appendIdentity(b []byte) []byte {
	b = wire.AppendString(wire.Field(b, "StreamArn"), s.arn())
	b = wire.AppendString(wire.Field(b, "StreamLabel"), s.label)
	return b
}

// appendToTable appends the stream's members of a TableDescription. A disabled stream has no
// StreamSpecification.
func (s *stream) appendToTable(b []byte) []byte {
	b = wire.AppendString(wire.Field(b, "LatestStreamArn"), s.arn())
	b = wire.AppendString(wire.Field(b, "LatestStreamLabel"), s.label)
	if !s.disabled.IsZero() {
		return b
	}
	b = append(wire.Field(append(wire.Field(b, "StreamSpecification"), '{'), "StreamEnabled"), "true"...)
	return append(wire.AppendString(wire.Field(b, "StreamViewType"), s.view), '}')
}

// listStreams appends the streams of a table, or all, after ExclusiveStartStreamArn, at most Limit (100
// unless given). LastEvaluatedStreamArn follows if more remain.
func (c *call) listStreams() error {
	var name, start string
	limit := int64(100)
	c.in.Object(func(member string) {
		switch member {
		case "TableName":
			name = readTableName(c.in)
		case "Limit":
			limit = c.in.Int()
		case "ExclusiveStartStreamArn":
			start = c.in.String()
		default:
			c.in.Fail(unsupportedError(member + " in ListStreams"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	c.out = append(wire.Field(c.out, "Streams"), '[')
	last := ""
	for _, s := range c.db.streams {
		if start != "" {
			if s.arn() == start {
				start = ""
			}
			continue
		}
		if name != "" && s.table != name {
			continue
		}
		if limit == 0 {
			c.out = append(c.out, ']')
			c.out = wire.AppendString(wire.Field(c.out, "LastEvaluatedStreamArn"), last)
			return nil
		}
		limit--
		last = s.arn()
		c.out = wire.AppendString(wire.Field(append(wire.Comma(c.out), '{'), "TableName"), s.table)
		c.out = append(s.appendIdentity(c.out), '}')
	}
	c.out = append(c.out, ']')
	return nil
}

// describeStream appends the description of a stream with its shards after ExclusiveStartShardId, at most Limit
// (1 to 100, 100 unless given). It drops records older than a day first. It fails for another Limit or an
// unknown stream.
func (c *call) describeStream() error {
	var arn, after string
	limit := int64(maxStreamShards)
	c.in.Object(func(member string) {
		switch member {
		case "StreamArn":
			arn = c.in.String()
		case "ExclusiveStartShardId":
			after = c.in.String()
		case "Limit":
			limit = c.in.Int()
		default:
			c.in.Fail(unsupportedError(member + " in DescribeStream"))
		}
	})
	return c.callWithStream(arn, func(s *stream) error {
		if limit < 1 || limit > maxStreamShards {
			return validationError("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and 100", limit)
		}
		shards, more := s.pageOfShards(after, int(limit))
		c.out = s.appendDescription(c.out, shards, more)
		return nil
	})
}

// pageOfShards returns at most limit shards after the one with id after, from the first if it is unknown. more tells
// whether further shards follow.
func (s *stream) pageOfShards(after string, limit int) (shards []*streamShard, more bool) {
	shards = s.shards
	if i := slices.IndexFunc(shards, func(h *streamShard) bool { return h.id == after }); i >= 0 {
		shards = shards[i+1:]
	}
	if len(shards) > limit {
		return shards[:limit], true
	}
	return shards, false
}

// appendDescription appends to b a StreamDescription that lists the given shards. With more it names the last
// of them as LastEvaluatedShardId.
func (s *stream) appendDescription(b []byte, shards []*streamShard, more bool) []byte {
	status := "ENABLED"
	if !s.disabled.IsZero() {
		status = "DISABLED"
	}
	b = append(wire.Field(b, "StreamDescription"), '{')
	b = wire.AppendString(wire.Field(s.appendIdentity(b), "TableName"), s.table)
	b = wire.AppendString(wire.Field(b, "StreamStatus"), status)
	b = wire.AppendString(wire.Field(b, "StreamViewType"), s.view)
	b = appendTime(wire.Field(b, "CreationRequestDateTime"), s.created)
	b = s.keys.append(b)
	b = append(wire.Field(b, "Shards"), '[')
	for _, h := range shards {
		b = h.appendDescription(wire.Comma(b))
	}
	b = append(b, ']')
	if more {
		b = wire.AppendString(wire.Field(b, "LastEvaluatedShardId"), shards[len(shards)-1].id)
	}
	return append(b, '}')
}

// appendDescription appends the description of a shard to b: its id, its parent if it has one, and its sequence
// numbers. Only a closed shard has an ending number.
func (h *streamShard) appendDescription(b []byte) []byte {
	b = wire.AppendString(wire.Field(append(b, '{'), "ShardId"), h.id)
	if h.parent != "" {
		b = wire.AppendString(wire.Field(b, "ParentShardId"), h.parent)
	}
	b = append(wire.Field(b, "SequenceNumberRange"), '{')
	b = wire.AppendString(wire.Field(b, "StartingSequenceNumber"), sequenceNumber(h.first))
	if !h.closed.IsZero() {
		b = wire.AppendString(wire.Field(b, "EndingSequenceNumber"), sequenceNumber(max(h.first, h.latest)))
	}
	return append(b, '}', '}')
}

// sequenceNumber returns n as text in the form of DynamoDB's sequence numbers, with at least 21 digits.
func sequenceNumber(n int64) string { return fmt.Sprintf("%021d", n) }

// getShardIterator appends an iterator for the requested position in a shard; it expires after 15 minutes. It
// fails if the stream, the shard or the sequence number does not exist or was trimmed.
func (c *call) getShardIterator() error {
	var arn, shard, kind, number string
	c.in.Object(func(member string) {
		switch member {
		case "StreamArn":
			arn = c.in.String()
		case "ShardId":
			shard = c.in.String()
		case "ShardIteratorType":
			kind = readEnum(c.in, "shardIteratorType", "AFTER_SEQUENCE_NUMBER", "LATEST", "AT_SEQUENCE_NUMBER", "TRIM_HORIZON")
		case "SequenceNumber":
			number = c.in.String()
		default:
			c.in.Fail(unsupportedError(member + " in GetShardIterator"))
		}
	})
	return c.callWithStream(arn, func(s *stream) error {
		h, err := s.shard(shard)
		if err != nil {
			return err
		}
		from, err := h.startSequence(kind, number)
		if err != nil {
			return err
		}
		c.appendIterator("ShardIterator", s, h, from)
		return nil
	})
}

// startSequence returns the first sequence number that an iterator reads. kind is a ShardIteratorType; number
// is the request's SequenceNumber, which TRIM_HORIZON and LATEST ignore. It fails if number is missing, outside
// the shard or trimmed.
func (h *streamShard) startSequence(kind, number string) (int64, error) {
	switch {
	case kind == "TRIM_HORIZON":
		return h.horizon, nil
	case kind == "LATEST":
		return max(h.horizon, h.latest+1), nil
	case number == "":
		return 0, validationError("SequenceNumber is required for shard iterator type %s", kind)
	}
	from, err := strconv.ParseInt(number, 10, 64)
	if err != nil || from < h.first || from > max(h.first, h.latest) {
		return 0, validationError("Invalid SequenceNumber parameter: %s", number)
	}
	if kind == "AFTER_SEQUENCE_NUMBER" {
		from++
	}
	if from < h.horizon {
		return 0, newError("TrimmedDataAccessException", "The requested sequence number has been trimmed")
	}
	return from, nil
}

// appendIterator appends to c.out an iterator under the name member. It has the stream's ARN, the shard id, the
// next sequence number to read and the time now in Unix ms, separated by bars.
func (c *call) appendIterator(member string, s *stream, h *streamShard, from int64) {
	c.out = wire.AppendString(wire.Field(c.out, member), fmt.Sprintf("%s|%s|%d|%d", s.arn(), h.id, from, c.at.UnixMilli()))
}

// readIterator returns the stream, shard and next sequence number of an iterator, after dropping records older
// than a day. It fails if the iterator is malformed or older than 15 minutes, or if its stream, shard or
// records are gone. The commit lock must be held for writing.
func (e *engine) readIterator(iterator string, at time.Time) (*stream, *streamShard, int64, error) {
	parts := strings.Split(iterator, "|")
	if len(parts) != 4 {
		return nil, nil, 0, validationError("Invalid ShardIterator")
	}
	from, err := strconv.ParseInt(parts[2], 10, 64)
	given, err2 := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || err2 != nil {
		return nil, nil, 0, validationError("Invalid ShardIterator")
	}
	s, err := e.findStream(parts[0], at)
	if err != nil {
		return nil, nil, 0, err
	}
	if at.UnixMilli()-given > iteratorLife.Milliseconds() {
		return nil, nil, 0, newError("ExpiredIteratorException", "Iterator expired. The iterator was created more than 15 minutes ago")
	}
	h, err := s.shard(parts[1])
	if err == nil && from < h.horizon {
		err = newError("TrimmedDataAccessException", "The records of the iterator have been trimmed")
	}
	return s, h, from, err
}

// readGetRecords reads the parameters of GetRecords. limit is 1,000 unless given; it fails unless it is from
// 1 to 1,000.
func readGetRecords(r *wire.Reader) (iterator string, limit int64, err error) {
	limit = maxStreamRecords
	r.Object(func(member string) {
		switch member {
		case "ShardIterator":
			iterator = r.String()
		case "Limit":
			limit = r.Int()
		default:
			r.Fail(unsupportedError(member + " in GetRecords"))
		}
	})
	if err := r.Err(); err != nil {
		return "", 0, err
	}
	if limit < 1 || limit > maxStreamRecords {
		return "", 0, validationError("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and 1000", limit)
	}
	return iterator, limit, nil
}

// getRecords appends the records from an iterator on, up to the limit and 1 MB, but at least one if there are
// any. NextShardIterator follows unless the shard is closed and read to its end. It fails for an invalid,
// expired or trimmed iterator.
func (c *call) getRecords() error {
	iterator, limit, err := readGetRecords(c.in)
	if err != nil {
		return err
	}
	c.db.mu.Lock() // finding the stream trims it
	defer c.db.mu.Unlock()
	s, h, from, err := c.db.readIterator(iterator, c.at)
	if err != nil {
		return err
	}
	size := 0
	c.out = append(wire.Field(c.out, "Records"), '[')
	for _, r := range h.recordsFrom(from) {
		if limit == 0 || size > 0 && size+r.size > maxStreamBytes {
			break
		}
		limit--
		size += r.size
		from = r.sequence + 1
		c.out = s.appendRecord(wire.Comma(c.out), r)
	}
	c.out = append(c.out, ']')
	if !h.hasEnded(from) {
		c.appendIterator("NextShardIterator", s, h, from)
	}
	return nil
}

// appendRecord appends a record to b as GetRecords shows it, with the images it has. A deletion by time to live
// has DynamoDB's own userIdentity.
func (s *stream) appendRecord(b []byte, r *streamRecord) []byte {
	b = append(b, '{')
	b = wire.AppendString(wire.Field(b, "eventID"), fmt.Sprintf("%x-%s", r.sequence, s.label))
	b = wire.AppendString(wire.Field(b, "eventName"), r.event)
	b = wire.AppendString(wire.Field(b, "eventVersion"), "1.1")
	b = wire.AppendString(wire.Field(b, "eventSource"), "aws:dynamodb")
	b = wire.AppendString(wire.Field(b, "awsRegion"), "us-east-1")
	if r.expired {
		b = append(wire.Field(b, "userIdentity"), `{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}`...)
	}
	b = append(wire.Field(b, "dynamodb"), '{')
	b = strconv.AppendInt(wire.Field(b, "ApproximateCreationDateTime"), r.at.Unix(), 10)
	b = value.AppendMap(wire.Field(b, "Keys"), r.keys)
	if r.new != nil {
		b = value.AppendMap(wire.Field(b, "NewImage"), r.new)
	}
	if r.old != nil {
		b = value.AppendMap(wire.Field(b, "OldImage"), r.old)
	}
	b = wire.AppendString(wire.Field(b, "SequenceNumber"), sequenceNumber(r.sequence))
	b = strconv.AppendInt(wire.Field(b, "SizeBytes"), int64(r.size), 10)
	b = wire.AppendString(wire.Field(b, "StreamViewType"), s.view)
	return append(b, '}', '}')
}
