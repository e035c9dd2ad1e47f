package schema

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
)

func TestRegister(t *testing.T) {
	k := NewKeys("eu")
	gpt := &types.AttributeValueMemberSS{Value: []string{"org/gpt-4"}}
	for _, test := range []struct {
		name   string
		owner  ConfigOwner
		remove bool
		key    Key
		st     Statement
	}{
		{
			"a resource",
			ConfigOwner{Resource: "org/gpt-4"},
			false,
			Key{"eu/SYSTEM#", "#RESOURCES"},
			Statement{Update: "ADD #0 :0", Names: map[string]string{"#0": "resources"}, Values: Item{":0": gpt}},
		},
		{
			"a resource, removed",
			ConfigOwner{Resource: "org/gpt-4"},
			true,
			Key{"eu/SYSTEM#", "#RESOURCES"},
			Statement{Update: "DELETE #0 :0", Names: map[string]string{"#0": "resources"}, Values: Item{":0": gpt}},
		},
		{
			"an entity",
			ConfigOwner{Entity: "a", Resource: "org/gpt-4"},
			false,
			Key{"eu/SYSTEM#", "#ENTITY_CONFIG_RESOURCES"},
			Statement{Update: "ADD #0 :0", Names: map[string]string{"#0": "org/gpt-4"}, Values: Item{":0": Number(1)}},
		},
		{
			"an entity's default, removed",
			ConfigOwner{Entity: "a"},
			true,
			Key{"eu/SYSTEM#", "#ENTITY_CONFIG_RESOURCES"},
			Statement{Update: "ADD #0 :0", Names: map[string]string{"#0": "_default_"}, Values: Item{":0": Number(-1)}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			key, st, ok := k.Register(test.owner, test.remove)
			assert.True(t, ok)
			assert.Equal(t, test.key, key)
			assert.Equal(t, test.st, st)
		})
	}
	for _, unlisted := range []ConfigOwner{{}, {Entity: "a", Resource: "PK"}, {Entity: "a", Resource: "SK"}} {
		_, _, ok := k.Register(unlisted, false)
		assert.False(t, ok, unlisted)
	}
}

func TestUncount(t *testing.T) {
	assert.Equal(t, Statement{
		Update: "REMOVE #0", Condition: "#0 <= :0", Names: map[string]string{"#0": "gpt-4"}, Values: Item{":0": Number(0)},
	}, Uncount("gpt-4"))
}

func TestConfigUnchanged(t *testing.T) {
	assert.Equal(t, Statement{Condition: "attribute_not_exists(#0)", Names: map[string]string{"#0": "PK"}}, ConfigUnchanged(nil))
	assert.Equal(t, Statement{
		Condition: "attribute_exists(#0) AND attribute_not_exists(#1)", Names: map[string]string{"#0": "PK", "#1": "config_version"},
	}, ConfigUnchanged(Item{}))
	assert.Equal(t, Statement{
		Condition: "#0 = :0", Names: map[string]string{"#0": "config_version"}, Values: Item{":0": Number(4)},
	}, ConfigUnchanged(Item{"config_version": Number(4)}))
}

func TestForeignRegistries(t *testing.T) {
	items := foreignItems(t)
	assert.Equal(t, []string{"gpt-4"}, ResourceNames(items[Keys{}.Resources()]))
	assert.Empty(t, ResourceNames(nil))
	assert.Contains(t, items, Keys{}.EntityResources())
	version := items[Keys{}.Version()]
	ours := Keys{}.EncodeVersion(VersionRecord{Schema: "0.8.0", ClientMin: "0.0.0", UpdatedBy: "client:0.8.1", UpdatedAt: time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC)})
	ours["lambda_version"] = String("0.8.1")
	assert.Equal(t, version, ours)
}
