package schema

import (
	"os"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/testworld"
)

// foreignItems are items that zae-limiter 0.8.1 wrote, by key.
func foreignItems(t *testing.T) map[Key]Item {
	t.Helper()
	data, err := os.ReadFile("testdata/zae-0.8.1-items.json")
	require.NoError(t, err)
	items, err := testworld.Items(data)
	require.NoError(t, err)
	byKey := make(map[Key]Item, len(items))
	for _, item := range items {
		byKey[KeyOf(item)] = item
	}
	return byKey
}

// foreignConfigs says what the configuration items among them mean.
var foreignConfigs = []struct {
	name   string
	owner  ConfigOwner
	config ConfigItem
}{
	{"system", ConfigOwner{}, ConfigItem{OnUnavailable: "allow", Version: 1, Limits: []ConfigLimit{{"rpm", 50, 50, 50, 60, "", "", "", false, 0, false}}}},
	{"resource", ConfigOwner{Resource: "gpt-4"}, ConfigItem{Version: 1, Limits: []ConfigLimit{{"rpm", 100, 100, 100, 60, "", "", "", false, 0, false}, {"tpm", 10_000, 10_000, 10_000, 60, "", "", "", false, 0, false}}}},
	{"entity", ConfigOwner{Entity: "key-1", Resource: "claude-3"}, ConfigItem{Version: 1, Limits: []ConfigLimit{{"rpm", 20, 20, 20, 60, "", "", "", false, 0, false}, {"tpm", 60_000, 60_000, 60_000, 3600, "", "", "", false, 0, false}}}},
	{"entity default", ConfigOwner{Entity: "proj-1"}, ConfigItem{Version: 1, Limits: []ConfigLimit{{"rpm", 1000, 1000, 1000, 60, "", "", "", false, 0, false}, {"tpm", 100_000, 150_000, 100_000, 60, "", "", "", false, 0, false}}}},
}

func TestConfigOfAnotherImplementation(t *testing.T) {
	items := foreignItems(t)
	for _, test := range foreignConfigs {
		t.Run(test.name, func(t *testing.T) {
			item := items[Keys{}.Config(test.owner)]
			require.NotNil(t, item)
			got, err := DecodeConfig(item)
			require.NoError(t, err)
			assert.Equal(t, test.config, got)
			assert.Equal(t, item, test.config.Item(Keys{}, test.owner, nil), "ours is the same item")
		})
	}
}

func TestEncodeConfigReplacesLimitsAndKeepsTheUnknown(t *testing.T) {
	owner := ConfigOwner{Entity: "a", Resource: "r"}
	old := ConfigItem{Version: 7, OnUnavailable: "allow", Limits: []ConfigLimit{{"gone", 1, 1, 1, 1, "", "", "", false, 0, false}}}.Item(Keys{}, owner, nil)
	old["owner"], old["l_note"], old["l_gone_zz"] = String("team-x"), String("kept"), Number(1)
	got := ConfigItem{Version: 8, Limits: []ConfigLimit{{"rpm", 1, 2, 3, 4, "", "", "", false, 0, false}}}.Item(Keys{}, owner, old)
	assert.Equal(t, Item{
		PK: String("ENTITY#a"), SK: String("#CONFIG#r"), GSI3PK: String("ENTITY_CONFIG#r"), GSI3SK: String("a"),
		"entity_id": String("a"), "resource": String("r"), "config_version": Number(8),
		"l_rpm_cp": Number(1), "l_rpm_bx": Number(2), "l_rpm_ra": Number(3), "l_rpm_rp": Number(4),
		"owner": String("team-x"), "l_note": String("kept"), "l_gone_zz": Number(1),
	}, got)
}

func TestConfigOfAPlan(t *testing.T) {
	for resource, sk := range map[string]string{"": "#CONFIG#_default_", "gpt-4": "#CONFIG#gpt-4"} {
		owner := ConfigOwner{Plan: "pro", Resource: resource}
		item := ConfigItem{Version: 1}.Item(NewKeys("eu"), owner, nil)
		assert.Equal(t, Item{
			PK: String("eu/PLAN#pro"), SK: String(sk), "plan": String("pro"),
			"resource": String(owner.Normal().Resource), "config_version": Number(1),
			GSI3PK: String("eu/PLANS#"), GSI3SK: String("pro#" + owner.Normal().Resource),
		}, item)
	}
}

func TestConfigMarks(t *testing.T) {
	owner, yes := ConfigOwner{Resource: "r"}, &types.AttributeValueMemberBOOL{Value: true}
	item := ConfigItem{Version: 1, Unlimited: true, Blocked: true, OnUnavailable: "local"}.Item(Keys{}, owner, nil)
	assert.Equal(t, yes, item["unlimited"])
	assert.Equal(t, yes, item["blocked"])
	got, err := DecodeConfig(item)
	require.NoError(t, err)
	assert.Equal(t, ConfigItem{Version: 1, Unlimited: true, Blocked: true, OnUnavailable: "local"}, got)

	lifted := ConfigItem{Version: 2}.Item(Keys{}, owner, item)
	for _, attr := range []string{"unlimited", "blocked", "on_unavailable"} {
		assert.NotContains(t, lifted, attr)
		if attr != "on_unavailable" {
			_, err = DecodeConfig(Item{attr: String("yes")})
			assert.ErrorContains(t, err, attr, "what is not understood is not taken for false")
			got, err = DecodeConfig(Item{attr: &types.AttributeValueMemberNULL{Value: true}})
			require.NoError(t, err)
			assert.Equal(t, ConfigItem{}, got)
		}
	}
}

func TestDecodeConfigDefaultsAndFaults(t *testing.T) {
	got, err := DecodeConfig(Item{"l_a_b_cp": Number(5), "l_a_b_rp": Number(60)})
	require.NoError(t, err)
	assert.Equal(t, []ConfigLimit{{"a_b", 5, 5, 5, 60, "", "", "", false, 0, false}}, got.Limits)

	none, err := DecodeConfig(nil)
	require.NoError(t, err)
	assert.Equal(t, ConfigItem{}, none)

	for name, item := range map[string]Item{
		"no period":   {"l_a_cp": Number(5)},
		"no capacity": {"l_a_rp": Number(5)},
		"a string":    {"l_a_cp": String("5"), "l_a_rp": Number(60)},
		"a fraction":  {"l_a_cp": &types.AttributeValueMemberN{Value: "0.5"}, "l_a_rp": Number(60)},
		"too large":   {"l_a_cp": &types.AttributeValueMemberN{Value: "9223372036854775808"}, "l_a_rp": Number(60)},
	} {
		_, err := DecodeConfig(item)
		assert.ErrorContains(t, err, "l_a_", name)
	}
}

func TestHasLimits(t *testing.T) {
	assert.True(t, HasLimits(Item{"l_rpm_cp": Number(1)}))
	for _, attr := range []string{"rpm", "l_rpm", "l__cp", "l_rpm_tk", "b_rpm_cp", "config_version"} {
		assert.False(t, HasLimits(Item{attr: Number(1)}), attr)
	}
	assert.False(t, HasLimits(nil))
}

func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Custom(func(t *rapid.T) ConfigLimit {
			n := rapid.Int64Range(1, 1_000_000_000_000)
			return ConfigLimit{rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_.\-]{0,63}`).Draw(t, "name"), n.Draw(t, "cp"), n.Draw(t, "bx"), n.Draw(t, "ra"), n.Draw(t, "rp"), "", "", "", false, 0, false}
		})
		limits := rapid.SliceOfNDistinct(limit, 1, MaxLimits, func(l ConfigLimit) string { return l.Name }).Draw(t, "limits")
		slices.SortFunc(limits, func(a, b ConfigLimit) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
		want := ConfigItem{
			Limits:        limits,
			Unlimited:     rapid.Bool().Draw(t, "unlimited"),
			Blocked:       rapid.Bool().Draw(t, "blocked"),
			OnUnavailable: rapid.SampledFrom([]string{"", "allow", "block", "local"}).Draw(t, "policy"),
			Version:       rapid.Int64Range(1, 1<<60).Draw(t, "version"),
		}
		got, err := DecodeConfig(want.Item(Keys{}, ConfigOwner{}, nil))
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, want, got)
	})
}
