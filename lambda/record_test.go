package lambda_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/lambda"
)

// both is a record of the stream, converted from there, and as Lambda sends it.
func both(t testing.TB, r streamtypes.Record) (fromStream, fromLambda aggregator.Record) {
	t.Helper()
	fromStream, err := aggregator.FromStream("", r)
	require.NoError(t, err)
	text, err := json.Marshal(lambdaRecord(t, r))
	require.NoError(t, err)
	var sent events.DynamoDBEventRecord
	require.NoError(t, json.Unmarshal(text, &sent), "%s", text)
	fromLambda, err = lambda.FromLambda(sent)
	require.NoError(t, err)
	return fromStream, fromLambda
}

// recordOf is a record of an item.
func recordOf(item map[string]streamtypes.AttributeValue, at time.Time) streamtypes.Record {
	return streamtypes.Record{
		EventID: aws.String("event-1"), EventName: streamtypes.OperationTypeRemove,
		UserIdentity: &streamtypes.Identity{Type: aws.String("Service"), PrincipalId: aws.String("dynamodb.amazonaws.com")},
		Dynamodb: &streamtypes.StreamRecord{
			SequenceNumber: aws.String("0000012345678901234567890123456789012345"), ApproximateCreationDateTime: &at,
			Keys:     map[string]streamtypes.AttributeValue{"PK": &streamtypes.AttributeValueMemberS{Value: "k"}},
			OldImage: item,
		},
	}
}

// TestEveryValueConverts: Lambda's records are what the stream's are.
func TestEveryValueConverts(t *testing.T) {
	item := map[string]streamtypes.AttributeValue{
		"text":    &streamtypes.AttributeValueMemberS{Value: "a\u2028<&>\"\\é\x00"},
		"empty":   &streamtypes.AttributeValueMemberS{Value: ""},
		"number":  &streamtypes.AttributeValueMemberN{Value: "-99999999999999999999999999999999999999"},
		"tiny":    &streamtypes.AttributeValueMemberN{Value: "1E-130"},
		"bytes":   &streamtypes.AttributeValueMemberB{Value: []byte{0, 255, 10}},
		"yes":     &streamtypes.AttributeValueMemberBOOL{Value: true},
		"no":      &streamtypes.AttributeValueMemberBOOL{Value: false},
		"null":    &streamtypes.AttributeValueMemberNULL{Value: true},
		"texts":   &streamtypes.AttributeValueMemberSS{Value: []string{"a", "b"}},
		"numbers": &streamtypes.AttributeValueMemberNS{Value: []string{"1", "0.5"}},
		"binary":  &streamtypes.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}},
		"list":    &streamtypes.AttributeValueMemberL{Value: []streamtypes.AttributeValue{&streamtypes.AttributeValueMemberN{Value: "1"}, &streamtypes.AttributeValueMemberL{Value: []streamtypes.AttributeValue{}}}},
		"map":     &streamtypes.AttributeValueMemberM{Value: map[string]streamtypes.AttributeValue{"S": &streamtypes.AttributeValueMemberS{Value: "M"}}},
	}
	want, got := both(t, recordOf(item, time.Unix(noon, 0)))
	want.Time = want.Time.UTC()
	assert.Equal(t, want, got)
	assert.True(t, got.Expired)
	assert.Len(t, got.Old, len(item))
	assert.Nil(t, got.New)
}

// TestRecordsMadeByHandFail rather than end the process.
func TestRecordsMadeByHandFail(t *testing.T) {
	for _, keys := range []map[string]events.DynamoDBAttributeValue{
		nil,
		{"PK": {}},
		{"PK": events.NewListAttribute([]events.DynamoDBAttributeValue{{}})},
		{"PK": events.NewMapAttribute(map[string]events.DynamoDBAttributeValue{"a": {}})},
	} {
		_, err := lambda.FromLambda(events.DynamoDBEventRecord{EventID: "event-9", Change: events.DynamoDBStreamRecord{SequenceNumber: "1", Keys: keys}})
		assert.ErrorContains(t, err, "event-9")
	}
}
