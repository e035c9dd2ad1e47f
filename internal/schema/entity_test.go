package schema

import (
	"encoding/json"
	"fmt"
	"strings"
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
		{ID: "proj-1", Name: "Production", Metadata: json.RawMessage(`{"team":"search"}`), CreatedAt: created},
	} {
		t.Run(want.ID, func(t *testing.T) {
			item := items[Keys{}.Meta(want.ID)]
			require.NotNil(t, item)
			assert.Equal(t, want, DecodeEntity(item))
			ours := want.Item(Keys{}, nil)
			for _, name := range []string{"GSI3PK", "GSI3SK", "version", "metadata_json", "managed_by"} {
				delete(ours, name)
			}
			assert.Equal(t, item, ours, "ours is the same item, with some more attributes")
		})
	}
}

func TestEntityOnAPlan(t *testing.T) {
	want := EntityRecord{ID: "key-1", Plan: "pro", CreatedAt: time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC)}
	item := want.Item(Keys{}, nil)
	assert.Equal(t, String("pro"), item["plan"])
	assert.Equal(t, want, DecodeEntity(item))
	assert.NotContains(t, EntityRecord{ID: "key-1"}.Item(Keys{}, nil), "plan")
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
	yes, none := &types.AttributeValueMemberBOOL{Value: true}, &types.AttributeValueMemberNULL{Value: true}
	list := func(values ...types.AttributeValue) types.AttributeValue {
		return &types.AttributeValueMemberL{Value: values}
	}
	for _, test := range []struct {
		name string
		in   types.AttributeValue
		want string
	}{
		{"absent", nil, ""},
		{"empty", m(Item{}), ""},
		{"plain", m(Item{"team": String("search"), "M": String("m"), "n": Number(3), "t": yes}), `{"M":"m","n":3,"t":true,"team":"search"}`},
		{"a key named like a type", m(Item{"M": String("m")}), `{"M":"m"}`},
		{
			"values marshalled twice",
			m(Item{"team": m(Item{"S": String("search")}), "n": m(Item{"N": String("3")}), "t": m(Item{"BOOL": yes}), "0": m(Item{"NULL": yes}), "00": m(Item{"NULL": none})}),
			`{"0":null,"00":null,"n":3,"t":true,"team":"search"}`,
		},
		{"all marshalled twice", m(Item{"M": m(Item{"team": m(Item{"S": String("search")})})}), `{"team":"search"}`},
		{
			"deep, twice", m(Item{"l": m(Item{"L": list(m(Item{"N": Number(1)}), m(Item{"M": m(Item{"a": m(Item{"S": String("b")})})}))})}),
			`{"l":[1,{"a":"b"}]}`,
		},
		{"nothing, twice", m(Item{"M": m(Item{})}), ""},
		{"deep", m(Item{"a": m(Item{"b": String("c"), "d": list(yes, none)}), "k": String("v")}), `{"a":{"b":"c","d":[true,null]},"k":"v"}`},
		{"half of it looks marshalled twice", m(Item{"a": m(Item{"S": String("b")}), "k": String("v")}), `{"a":{"S":"b"},"k":"v"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, string(decodeMetadata(Item{"metadata": test.in})))
			assert.Equal(t, "[1]", string(decodeMetadata(Item{"metadata": test.in, "metadata_json": String("[1]")})), "ours comes first")
			assert.Equal(t, test.want, string(decodeMetadata(Item{"metadata": test.in, "metadata_json": String("[1")})), "but not if it is no JSON")
		})
	}
}

// Metadata come back byte for byte, and other tools see a map.
func TestMetadataAreKeptAsTheyWere(t *testing.T) {
	for text, want := range map[string]string{
		`{ "b" : 1.50, "a" : [ ] , "a":{"x":null} }`: `{"a":{"x":null},"b":1.50}`,
		`null`:                   `{}`,
		`[1, 2]`:                 `{}`,
		`"text"`:                 `{}`,
		`{"n":1e400}`:            `{"n":"1e400"}`,
		`{"a":{"":1}}`:           `{"a":"{\"\":1}"}`,
		`{"":1}`:                 `{}`,
		`{"<&>":"\ud800\u2028"}`: `{"\u003c\u0026\u003e":"\ufffd\u2028"}`,
	} {
		require.Empty(t, CheckMetadata(json.RawMessage(text)), text)
		item := EntityRecord{ID: "a", Metadata: json.RawMessage(text)}.Item(Keys{}, nil)
		assert.Equal(t, text, string(DecodeEntity(item).Metadata))
		assert.JSONEq(t, want, string(ToJSON(item["metadata"])), text)
	}
}

func TestMetadataAreBounded(t *testing.T) {
	deep := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":[`, n/2) + strings.Repeat(`]}`, n/2))
	}
	assert.Empty(t, CheckMetadata(nil))
	assert.Empty(t, CheckMetadata(deep(MaxMetadataDepth)))
	assert.Contains(t, CheckMetadata(deep(MaxMetadataDepth+2)), "nested 26 deep")
	long := `"` + strings.Repeat("x", MaxMetadata-2) + `"`
	assert.Empty(t, CheckMetadata(json.RawMessage(long)))
	assert.Contains(t, CheckMetadata(json.RawMessage(long+" ")), "16385 bytes")
	for _, text := range []string{" ", "{", "{} {}", "NaN", "\"\xff\"", "'a'"} {
		assert.NotEmpty(t, CheckMetadata(json.RawMessage(text)), text)
	}
}

// A record keeps what another tool wrote besides, and when it was made.
func TestARecordKeepsWhatItDoesNotKnow(t *testing.T) {
	old := EntityRecord{ID: "a", ParentID: "p", Plan: "pro", Metadata: json.RawMessage(`[]`)}.Item(Keys{}, nil)
	old["tags"], old["created_at"], old["adoptions"] = String("x"), String("yesterday"), Number(3)
	item := EntityRecord{ID: "a", Name: "n", Version: 2}.Item(Keys{}, old)
	assert.Equal(t, String("x"), item["tags"])
	assert.Equal(t, String("yesterday"), item["created_at"])
	assert.Equal(t, Number(3), item["adoptions"])
	for _, name := range []string{"GSI1PK", "GSI1SK", "plan", "metadata_json", "deleting"} {
		assert.NotContains(t, item, name)
	}
}

// The list of entities spreads them over its partitions, and an id stays in its own.
func TestEntityShards(t *testing.T) {
	count := map[int]int{}
	for i := range 1600 {
		count[EntityShard(fmt.Sprint("key-", i))]++
	}
	assert.Len(t, count, EntityShards)
	for shard, n := range count {
		assert.Greater(t, n, 50, shard)
	}
	assert.Equal(t, 6, EntityShard("key-1"))
	assert.Equal(t, String("eu/ENTITIES#6"), EntityRecord{ID: "key-1"}.Item(NewKeys("eu"), nil)["GSI3PK"])
}
