package lambda_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
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

// TestRecordsOfACall: 6 MB, which Lambda sends at once at most, hold 3,000 records of buckets
// with two limits. docs/cost.md counts with it.
func TestRecordsOfACall(t *testing.T) {
	t.Parallel()
	db := ddbmem.New()
	t.Cleanup(db.Close)
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	limiter, err := dynalimit.New(repo, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, limiter.Close(t.Context())) })
	limits := dynalimit.WithLimits(dynalimit.PerMinute("rpm", 1_000_000), dynalimit.PerMinute("tpm", 1_000_000))
	for range 2 {
		_, err := limiter.Acquire(t.Context(), "tenant-10", "gpt-4", dynalimit.Amounts{"rpm": 1, "tpm": 500}, limits)
		require.NoError(t, err)
	}
	all := engine{db.Client(), db.StreamsClient()}.records(t, "limits")
	shard := all[len(all)-1]
	size := len(payload(t, lambdaRecord(t, shard[len(shard)-1])))
	t.Logf("%d bytes", size)
	require.LessOrEqual(t, 3000*size, 6<<20)
}

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
