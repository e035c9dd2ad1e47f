package schema

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
)

func TestListResources(t *testing.T) {
	names := []string{"gpt-4", "org/gpt-4"}
	for verb, remove := range map[string]bool{"ADD": false, "DELETE": true} {
		assert.Equal(t, Statement{
			Update: verb + " #0 :0", Names: map[string]string{"#0": "resources"},
			Values: Item{":0": &types.AttributeValueMemberSS{Value: names}},
		}, ListResources(names, remove))
	}
}

// Each resource is counted once, and none under a name that is a key's.
func TestCountConfigs(t *testing.T) {
	st, ok := CountConfigs(map[string]int64{"org/gpt-4": 3, "_default_": -1, "same": 0, "PK": 1, "SK": 1})
	assert.True(t, ok)
	assert.Equal(t, Statement{
		Update: "ADD #0 :0, #1 :1", Names: map[string]string{"#0": "_default_", "#1": "org/gpt-4"}, Values: Item{":0": Number(-1), ":1": Number(3)},
	}, st)
	for _, nothing := range []map[string]int64{nil, {"PK": 1}, {"gpt-4": 0}} {
		_, ok = CountConfigs(nothing)
		assert.False(t, ok)
	}
	assert.Equal(t, []string{"_default_", "gpt-4"}, CountedResources(Item{
		PK: String("SYSTEM#"), "gpt-4": Number(2), "_default_": Number(1), "gone": Number(0), "lost": Number(-1),
	}))
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
	version := items[VersionKey()]
	ours := VersionRecord{Schema: "0.8.0", ClientMin: "0.0.0", UpdatedBy: "client:0.8.1", UpdatedAt: time.Date(2026, 11, 21, 9, 54, 2, 0, time.UTC)}.Item()
	ours["lambda_version"] = String("0.8.1")
	assert.Equal(t, version, ours)
}
