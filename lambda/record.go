package lambda

import (
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/aggregator"
)

// FromLambda converts a record of DynamoDB Streams from Lambda's form to the aggregator's, with its time in
// whole seconds of UTC and without a shard. Expired is true for a deletion by DynamoDB's TTL. It fails for a
// record without a sequence number or keys, or with a value without a type.
func FromLambda(r events.DynamoDBEventRecord) (aggregator.Record, error) {
	out := aggregator.Record{EventID: r.EventID, Sequence: r.Change.SequenceNumber}
	if out.Sequence == "" || len(r.Change.Keys) == 0 {
		return aggregator.Record{}, fmt.Errorf("lambda: record %s has no sequence number or no keys of an item", r.EventID)
	}
	if at := r.Change.ApproximateCreationDateTime.Time; at.Unix() > 0 { // an absent time arrives as 1970
		out.Time = at.Truncate(time.Second).UTC()
	}
	if who := r.UserIdentity; who != nil {
		out.Expired = who.Type == "Service" && who.PrincipalID == "dynamodb.amazonaws.com"
	}
	for _, part := range []struct {
		from map[string]events.DynamoDBAttributeValue
		to   *map[string]types.AttributeValue
	}{{r.Change.Keys, &out.Keys}, {r.Change.OldImage, &out.Old}, {r.Change.NewImage, &out.New}} {
		if len(part.from) == 0 {
			continue
		}
		item, err := convertItem(part.from)
		if err != nil {
			return aggregator.Record{}, fmt.Errorf("lambda: record %s: %w", r.EventID, err)
		}
		*part.to = item
	}
	return out, nil
}

// convertItem converts the attributes of an item, or of a map in one, from Lambda's form to the SDK's. The
// error names an attribute without a type.
func convertItem(from map[string]events.DynamoDBAttributeValue) (map[string]types.AttributeValue, error) {
	out := make(map[string]types.AttributeValue, len(from))
	for name, v := range from {
		value, err := convertValue(v)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", name, err)
		}
		out[name] = value
	}
	return out, nil
}

// convertValue converts a value from Lambda's form to the SDK's. It fails for a value without a type.
func convertValue(v events.DynamoDBAttributeValue) (types.AttributeValue, error) {
	if v.IsNull() && v.DataType() != events.DataTypeNull {
		return nil, fmt.Errorf("has no value")
	}
	switch v.DataType() {
	case events.DataTypeList:
		return convertList(v.List())
	case events.DataTypeMap:
		inner, err := convertItem(v.Map())
		if err != nil {
			return nil, err
		}
		return &types.AttributeValueMemberM{Value: inner}, nil
	default:
		return convertScalar(v)
	}
}

// convertList converts a list from Lambda's form to the SDK's. The error names the index of an element without
// a type.
func convertList(from []events.DynamoDBAttributeValue) (types.AttributeValue, error) {
	values := make([]types.AttributeValue, len(from))
	for i, v := range from {
		var err error
		if values[i], err = convertValue(v); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return &types.AttributeValueMemberL{Value: values}, nil
}

// convertScalar converts a value that holds no other values: a set, or anything but a list or a map. It fails
// for a type that DynamoDB does not have.
func convertScalar(v events.DynamoDBAttributeValue) (types.AttributeValue, error) {
	switch v.DataType() {
	case events.DataTypeBinary:
		return &types.AttributeValueMemberB{Value: v.Binary()}, nil
	case events.DataTypeBinarySet:
		return &types.AttributeValueMemberBS{Value: v.BinarySet()}, nil
	case events.DataTypeBoolean:
		return &types.AttributeValueMemberBOOL{Value: v.Boolean()}, nil
	case events.DataTypeNumber:
		return &types.AttributeValueMemberN{Value: v.Number()}, nil
	case events.DataTypeNumberSet:
		return &types.AttributeValueMemberNS{Value: v.NumberSet()}, nil
	case events.DataTypeNull:
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case events.DataTypeString:
		return &types.AttributeValueMemberS{Value: v.String()}, nil
	case events.DataTypeStringSet:
		return &types.AttributeValueMemberSS{Value: v.StringSet()}, nil
	}
	return nil, fmt.Errorf("has the type %d, which is none of DynamoDB's", v.DataType())
}
