package lambda_test

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"
)

// object is a JSON object.
type object = map[string]any

// payload is the event that Lambda makes of records.
func payload(t testing.TB, records ...any) []byte {
	t.Helper()
	if records == nil {
		records = []any{}
	}
	text, err := json.Marshal(object{"Records": records})
	require.NoError(t, err)
	return text
}

// lambdaRecord is a record as Lambda sends it.
func lambdaRecord(t testing.TB, r streamtypes.Record) object {
	t.Helper()
	change := object{
		"ApproximateCreationDateTime": float64(r.Dynamodb.ApproximateCreationDateTime.Unix()),
		"Keys":                        lambdaItem(t, r.Dynamodb.Keys), "SequenceNumber": *r.Dynamodb.SequenceNumber,
		"SizeBytes": aws.ToInt64(r.Dynamodb.SizeBytes), "StreamViewType": string(r.Dynamodb.StreamViewType),
	}
	if r.Dynamodb.OldImage != nil {
		change["OldImage"] = lambdaItem(t, r.Dynamodb.OldImage)
	}
	if r.Dynamodb.NewImage != nil {
		change["NewImage"] = lambdaItem(t, r.Dynamodb.NewImage)
	}
	out := object{
		"eventID": aws.ToString(r.EventID), "eventName": string(r.EventName), "eventVersion": "1.1", "eventSource": "aws:dynamodb", "awsRegion": "us-east-1",
		"eventSourceARN": "arn:aws:dynamodb:us-east-1:111122223333:table/limits/stream/2026-01-01T00:00:00.000", "dynamodb": change,
	}
	if r.UserIdentity != nil {
		out["userIdentity"] = object{"type": aws.ToString(r.UserIdentity.Type), "principalId": aws.ToString(r.UserIdentity.PrincipalId)}
	}
	return out
}

func lambdaItem(t testing.TB, item map[string]streamtypes.AttributeValue) object {
	out := object{}
	for name, v := range item {
		out[name] = lambdaValue(t, v)
	}
	return out
}

func lambdaValue(t testing.TB, v streamtypes.AttributeValue) object {
	switch v := v.(type) {
	case *streamtypes.AttributeValueMemberB:
		return object{"B": v.Value}
	case *streamtypes.AttributeValueMemberBOOL:
		return object{"BOOL": v.Value}
	case *streamtypes.AttributeValueMemberBS:
		return object{"BS": v.Value}
	case *streamtypes.AttributeValueMemberL:
		list := []object{}
		for _, e := range v.Value {
			list = append(list, lambdaValue(t, e))
		}
		return object{"L": list}
	case *streamtypes.AttributeValueMemberM:
		return object{"M": lambdaItem(t, v.Value)}
	case *streamtypes.AttributeValueMemberN:
		return object{"N": v.Value}
	case *streamtypes.AttributeValueMemberNS:
		return object{"NS": v.Value}
	case *streamtypes.AttributeValueMemberNULL:
		return object{"NULL": true}
	case *streamtypes.AttributeValueMemberS:
		return object{"S": v.Value}
	case *streamtypes.AttributeValueMemberSS:
		return object{"SS": v.Value}
	}
	require.Fail(t, "a value of no type", "%T", v)
	return nil
}
