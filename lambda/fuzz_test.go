package lambda_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/lambda"
)

// FuzzEvents: whatever comes, a function answers; what can be read is given once in order,
// and of what is not, the first is asked for again.
func FuzzEvents(f *testing.F) {
	for _, bad := range malformed {
		f.Add(string(payload(f, bucketRecord(1), bad, bucketRecord(3))))
	}
	f.Add(`{"Records":[{"dynamodb":{"Keys":{"a":{"BS":[null]}}}}]}`)
	f.Fuzz(func(t *testing.T, event string) {
		l := &ledger{}
		h := newHandler(t, l.process, &lambda.Options{Tries: 2})
		for range 3 {
			l.given = nil
			text, err := h.Invoke(t.Context(), []byte(event))
			if err != nil {
				return
			}
			var answer events.DynamoDBEventResponse
			if string(text) != "null" && assert.NoError(t, json.Unmarshal(text, &answer), "%s", text) {
				assert.LessOrEqual(t, len(answer.BatchItemFailures), 1)
			}
		}
	})
}

// FuzzValues: values of any shape convert as they do from the stream.
func FuzzValues(f *testing.F) {
	f.Add("text", []byte{0, 1}, uint64(123456789), true)
	f.Add("\xff", []byte(nil), uint64(0), false)
	f.Fuzz(func(t *testing.T, text string, bytes []byte, shape uint64, yes bool) {
		if bytes == nil {
			bytes = []byte{}
		}
		text = strings.ToValidUTF8(text, "?") // DynamoDB has no other
		item := map[string]streamtypes.AttributeValue{text + "a": build(text, bytes, &shape, yes, 0), "b": build(text, bytes, &shape, !yes, 0)}
		want, got := both(t, recordOf(item, time.Unix(noon, 0)))
		assert.Equal(t, want.Old, got.Old)
	})
}

// build is a value whose shape the digits of a number say.
func build(text string, bytes []byte, shape *uint64, yes bool, depth int) streamtypes.AttributeValue {
	digit := *shape % 10
	*shape /= 10
	if depth == 5 {
		digit %= 8
	}
	inner := func() streamtypes.AttributeValue { return build(text, bytes, shape, yes, depth+1) }
	switch digit {
	case 0:
		return &streamtypes.AttributeValueMemberS{Value: text}
	case 1:
		return &streamtypes.AttributeValueMemberB{Value: bytes}
	case 2:
		return &streamtypes.AttributeValueMemberBOOL{Value: yes}
	case 3:
		return &streamtypes.AttributeValueMemberN{Value: text} // whatever DynamoDB takes for a number
	case 4:
		return &streamtypes.AttributeValueMemberNULL{Value: true}
	case 5:
		return &streamtypes.AttributeValueMemberSS{Value: []string{text, text + "x"}}
	case 6:
		return &streamtypes.AttributeValueMemberNS{Value: []string{text}}
	case 7:
		return &streamtypes.AttributeValueMemberBS{Value: [][]byte{bytes, {1}}}
	case 8:
		return &streamtypes.AttributeValueMemberL{Value: []streamtypes.AttributeValue{inner(), inner()}}
	default:
		return &streamtypes.AttributeValueMemberM{Value: map[string]streamtypes.AttributeValue{text: inner(), text + "y": inner()}}
	}
}
