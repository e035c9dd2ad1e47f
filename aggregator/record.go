package aggregator

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// Record is one change of an item, as the table's stream tells it. The stream needs the
// view NEW_AND_OLD_IMAGES.
type Record struct {
	// EventID identifies the record in failures.
	EventID string
	// Sequence is the record's number: digits, at most 40. Those of one item rise along its
	// lineage of shards.
	Sequence string
	// Shard is where the record was read; empty where that is not known, as in Lambda.
	Shard string
	// Time is when the change was made, to the second. It says which hour it counts for.
	Time time.Time
	// Keys is the item's primary key.
	Keys map[string]types.AttributeValue
	// Old and New are the item before and after the change, nil where there was none.
	Old, New map[string]types.AttributeValue
	// Expired says that DynamoDB deleted the item because its time to live was over.
	Expired bool
}

// FromStream converts a record of DynamoDB Streams, read from a shard. It fails for a record without a sequence
// number or keys, or with a value of unknown type. Expired is set if DynamoDB's time to live deleted the item.
func FromStream(shard string, r streamtypes.Record) (Record, error) {
	id := aws.ToString(r.EventID)
	if r.Dynamodb == nil || aws.ToString(r.Dynamodb.SequenceNumber) == "" || len(r.Dynamodb.Keys) == 0 {
		return Record{}, fmt.Errorf("aggregator: record %s has no sequence number or no keys of an item", id)
	}
	out := Record{
		EventID: id, Shard: shard, Sequence: aws.ToString(r.Dynamodb.SequenceNumber), Time: aws.ToTime(r.Dynamodb.ApproximateCreationDateTime),
	}
	if who := r.UserIdentity; who != nil {
		out.Expired = aws.ToString(who.Type) == "Service" && aws.ToString(who.PrincipalId) == "dynamodb.amazonaws.com"
	}
	for _, part := range []struct {
		from map[string]streamtypes.AttributeValue
		to   *map[string]types.AttributeValue
	}{{r.Dynamodb.Keys, &out.Keys}, {r.Dynamodb.OldImage, &out.Old}, {r.Dynamodb.NewImage, &out.New}} {
		if len(part.from) == 0 {
			continue
		}
		item, err := attributevalue.FromDynamoDBStreamsMap(part.from)
		if err != nil {
			return Record{}, fmt.Errorf("aggregator: record %s: %w", id, err)
		}
		*part.to = item
	}
	return out, nil
}
