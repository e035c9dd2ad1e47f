package lambda

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/events"

	"github.com/dynalimit/dynalimit/aggregator"
)

// event is the function's input. Its records are read one by one, because an unreadable one
// must not affect the others.
type event struct {
	Records []json.RawMessage `json:"Records"`
	// DetailType is the type of a schedule's event.
	DetailType string `json:"detail-type"`
}

// streamSource is the source of a stream's records. An event of another source fails:
// skipped records would be deleted from a queue.
const streamSource = "aws:dynamodb"

// scheduledType is the type of events of EventBridge's rules and schedules.
const scheduledType = "Scheduled Event"

// readEvent decodes the JSON of an event: records of a DynamoDB stream, which stay undecoded, or a schedule's
// event, which has none. It fails for any other event, and if one record has another source.
func readEvent(payload []byte) (event, error) {
	var e event
	if err := json.Unmarshal(payload, &e); err != nil {
		return event{}, fmt.Errorf("lambda: the event is no JSON: %w", err)
	}
	if e.Records == nil && e.DetailType != scheduledType {
		return event{}, errors.New("lambda: the event is neither of a stream of DynamoDB, which has Records, nor of a schedule, whose detail-type is " + scheduledType)
	}
	for _, raw := range e.Records {
		var of struct {
			EventSource string `json:"eventSource"`
		}
		if _ = json.Unmarshal(raw, &of); of.EventSource != "" && of.EventSource != streamSource {
			return event{}, fmt.Errorf("lambda: the event has records of %s, not of a stream of DynamoDB: take that event source away from the function", of.EventSource)
		}
	}
	return e, nil
}

// received is a record as it came.
type received struct {
	// id and sequence identify it. Without an id of its own, id is made from its text.
	id, sequence string
	record       aggregator.Record
	// err is the reason why it is unreadable.
	err error
}

// decodeRecord converts a record of an event, with its id and sequence number as far as they can be read. An
// unreadable record has its error in err. Without an event id it gets a hash of its text as its id.
func decodeRecord(raw json.RawMessage) received {
	out := received{}
	var names struct {
		EventID any `json:"eventID"`
		Change  struct {
			SequenceNumber any
		} `json:"dynamodb"`
	}
	_ = json.Unmarshal(raw, &names) // as far as possible: convertRecord reports unreadable parts
	out.id, _ = names.EventID.(string)
	out.sequence, _ = names.Change.SequenceNumber.(string)
	if out.id == "" {
		sum := sha256.Sum256(raw)
		out.id = "sha256:" + hex.EncodeToString(sum[:])
	}
	out.record, out.err = convertRecord(raw)
	return out
}

// convertRecord decodes a record of the stream from Lambda's JSON. It fails for a malformed one, also where
// package events panics.
func convertRecord(raw json.RawMessage) (record aggregator.Record, err error) {
	defer func() {
		if p := recover(); p != nil {
			record, err = aggregator.Record{}, fmt.Errorf("lambda: a record that is malformed: %v", p)
		}
	}()
	var r events.DynamoDBEventRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return aggregator.Record{}, fmt.Errorf("lambda: a record that is malformed: %w", err)
	}
	return FromLambda(r)
}
