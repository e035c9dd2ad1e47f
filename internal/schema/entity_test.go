package schema

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEntityOfAnotherImplementation(t *testing.T) {
	created := time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC)
	items := foreignItems(t)
	for _, want := range []EntityRecord{
		{ID: "key-1", Name: "Key one", ParentID: "proj-1", Cascade: true, CreatedAt: created},
		{ID: "proj-1", Name: "Production", Metadata: map[string]string{"team": "search"}, CreatedAt: created},
	} {
		t.Run(want.ID, func(t *testing.T) {
			item := items[Keys{}.Meta(want.ID)]
			require.NotNil(t, item)
			assert.Equal(t, want, DecodeEntity(item))
			assert.Equal(t, item, Keys{}.EncodeEntity(want), "ours is the same item")
		})
	}
}

func TestEntityOnAPlan(t *testing.T) {
	want := EntityRecord{ID: "key-1", Plan: "pro", CreatedAt: time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC)}
	item := Keys{}.EncodeEntity(want)
	assert.Equal(t, String("pro"), item["plan"])
	assert.Equal(t, want, DecodeEntity(item))
	assert.NotContains(t, Keys{}.EncodeEntity(EntityRecord{ID: "key-1"}), "plan")
	assert.Empty(t, DecodeEntity(Item{"plan": Number(1)}).Plan)
}

func TestDecodeEntityIsTolerant(t *testing.T) {
	assert.Equal(t, EntityRecord{}, DecodeEntity(nil))
	assert.Equal(t, EntityRecord{ID: "a"}, DecodeEntity(Item{
		"entity_id": String("a"), "name": Number(1), "cascade": String("yes"), "created_at": String("yesterday"), "extra": Number(1),
	}))
}

func TestDecodeMetadata(t *testing.T) {
	m := func(values Item) types.AttributeValue { return &types.AttributeValueMemberM{Value: values} }
	yes := &types.AttributeValueMemberBOOL{Value: true}
	for _, test := range []struct {
		name string
		in   types.AttributeValue
		want map[string]string
	}{
		{"absent", nil, nil},
		{"empty", m(Item{}), nil},
		{"plain", m(Item{"team": String("search"), "M": String("m"), "n": Number(3), "t": yes}), map[string]string{"team": "search", "M": "m", "n": "3", "t": "true"}},
		{"a key named like a type", m(Item{"M": String("m")}), map[string]string{"M": "m"}},
		{"values marshalled twice", m(Item{"team": m(Item{"S": String("search")}), "n": m(Item{"N": String("3")}), "t": m(Item{"BOOL": yes})}), map[string]string{"team": "search", "n": "3", "t": "true"}},
		{"all marshalled twice", m(Item{"M": m(Item{"team": m(Item{"S": String("search")})})}), map[string]string{"team": "search"}},
		{"nothing, twice", m(Item{"M": m(Item{})}), nil},
		{"a nested map is left out", m(Item{"a": m(Item{"b": String("c"), "d": String("e")}), "k": String("v")}), map[string]string{"k": "v"}},
	} {
		t.Run(test.name, func(t *testing.T) { assert.Equal(t, test.want, decodeMetadata(test.in)) })
	}
}
