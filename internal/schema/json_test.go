package schema

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
)

func TestJSONSurvivesTheTable(t *testing.T) {
	for _, text := range []string{
		`null`, `true`, `""`, `"a"`, `[]`, `{}`, `12`, `-0.5`, `12345678901234567890123456789012345678`,
		`{"a":[1,{"b":null}],"c":"d"}`,
	} {
		assert.JSONEq(t, text, string(ToJSON(FromJSON(json.RawMessage(text)))))
	}
	assert.Nil(t, ToJSON(nil))
	assert.Equal(t, String("{broken"), FromJSON(json.RawMessage("{broken")))
}

// A number that DynamoDB would refuse or round is kept as text.
func TestNumbersBeyondDynamoDBBecomeText(t *testing.T) {
	for _, text := range []string{"1e400", "-1E-300", "123456789012345678901234567890123456789", "0.123456789012345678901234567890123456789"} {
		assert.Equal(t, String(text), FromJSON(json.RawMessage(text)))
	}
	for _, text := range []string{"1e80", "1E+5", "-2.5e-10"} {
		assert.Equal(t, &types.AttributeValueMemberN{Value: text}, FromJSON(json.RawMessage(text)))
	}
}

// Sets and bytes, which JSON has none of, are shown as lists and text.
func TestSetsAreShownAsLists(t *testing.T) {
	assert.JSONEq(t, `["a","b"]`, string(ToJSON(&types.AttributeValueMemberSS{Value: []string{"a", "b"}})))
	assert.JSONEq(t, `"AQI="`, string(ToJSON(&types.AttributeValueMemberB{Value: []byte{1, 2}})))
	assert.JSONEq(t, `null`, string(ToJSON(&types.AttributeValueMemberNULL{Value: true})))
}
