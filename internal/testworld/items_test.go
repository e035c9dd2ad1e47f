package testworld

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestItemsReadsEveryType(t *testing.T) {
	items, err := DecodeItems([]byte(`[{"s":{"S":"a"},"n":{"N":"1"},"b":{"B":"AQI="},"t":{"BOOL":true},"z":{"NULL":true},
		"set":{"SS":["x","y"]},"m":{"M":{"k":{"S":"v"}}},"l":{"L":[{"N":"2"},{"M":{}}]}}]`))
	require.NoError(t, err)
	assert.Equal(t, []map[string]types.AttributeValue{{
		"s":   &types.AttributeValueMemberS{Value: "a"},
		"n":   &types.AttributeValueMemberN{Value: "1"},
		"b":   &types.AttributeValueMemberB{Value: []byte{1, 2}},
		"t":   &types.AttributeValueMemberBOOL{Value: true},
		"z":   &types.AttributeValueMemberNULL{Value: true},
		"set": &types.AttributeValueMemberSS{Value: []string{"x", "y"}},
		"m":   &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "v"}}},
		"l": &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberN{Value: "2"},
			&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}},
		}},
	}}, items)
}

func TestItemsRefusesWhatItCannotRead(t *testing.T) {
	for _, data := range []string{`{`, `[{"a":{"S":1}}]`, `[{"a":{}}]`, `[{"a":{"X":"1"}}]`, `[{"a":{"L":[{"X":"1"}]}}]`, `[{"a":{"M":{"b":{"X":"1"}}}}]`} {
		_, err := DecodeItems([]byte(data))
		assert.Error(t, err, data)
	}
}
