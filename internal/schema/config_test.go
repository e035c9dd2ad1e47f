package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
	items, err := testworld.DecodeItems(data)
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
	{"system", ConfigOwner{}, ConfigItem{OnUnavailable: "allow", Version: 1, Limits: []ConfigLimit{{"rpm", 50, 50, 50, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}},
	{"resource", ConfigOwner{Resource: "gpt-4"}, ConfigItem{Version: 1, Limits: []ConfigLimit{{"rpm", 100, 100, 100, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}, {"tpm", 10_000, 10_000, 10_000, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}},
	{"entity", ConfigOwner{Entity: "key-1", Resource: "claude-3"}, ConfigItem{Version: 1, Limits: []ConfigLimit{{"rpm", 20, 20, 20, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}, {"tpm", 60_000, 60_000, 60_000, 3600 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}},
	{"entity default", ConfigOwner{Entity: "proj-1"}, ConfigItem{Version: 1, Limits: []ConfigLimit{{"rpm", 1000, 1000, 1000, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}, {"tpm", 100_000, 150_000, 100_000, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}},
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
	old := ConfigItem{Version: 7, OnUnavailable: "allow", Limits: []ConfigLimit{{"gone", 1, 1, 1, 1 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}.Item(Keys{}, owner, nil)
	old["owner"], old["l_note"], old["l_gone_zz"] = String("team-x"), String("kept"), Number(1)
	got := ConfigItem{Version: 8, Limits: []ConfigLimit{{"rpm", 1, 2, 3, 4 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}.Item(Keys{}, owner, old)
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
	assert.Equal(t, []ConfigLimit{{"a_b", 5, 5, 5, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}, got.Limits)

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

func TestHasList(t *testing.T) {
	for _, attr := range []string{"l_rpm_cp", "k_rpm_n", "k_rpm_off", "k_later"} {
		assert.True(t, HasList(Item{attr: Number(1)}), attr)
	}
	for _, attr := range []string{"rpm", "l_rpm", "l__cp", "l_rpm_tk", "b_rpm_cp", "config_version", "k_extends", "k_groups"} {
		assert.False(t, HasList(Item{attr: Number(1)}), attr)
	}
	assert.False(t, HasList(nil))
}

// TestExtendingLevels: the marks of a level that extends are read as they were written, an older
// version's writer cannot read them, and what says two things at once is refused.
func TestExtendingLevels(t *testing.T) {
	c := ConfigItem{Extends: true, Lifted: []string{"tpm", "usd"}, Limits: []ConfigLimit{{Name: "rpm", Capacity: 1, Burst: 1, RefillAmount: 1, RefillPeriod: time.Minute}}}
	item := c.Item(Keys{}, ConfigOwner{}, nil)
	assert.Equal(t, &types.AttributeValueMemberBOOL{Value: true}, item["k_extends"])
	assert.Equal(t, &types.AttributeValueMemberBOOL{Value: true}, item["k_tpm_off"])
	assert.Equal(t, []string{"rpm"}, LimitNames(item))
	got, err := DecodeConfig(item)
	require.NoError(t, err)
	assert.Equal(t, c, got)
	item = ConfigItem{Limits: c.Limits}.Item(Keys{}, ConfigOwner{}, item)
	assert.NotContains(t, item, "k_extends", "a list that replaces")
	assert.NotContains(t, item, "k_tpm_off")

	assert.NotContains(t, ConfigItem{Extends: true, Blocked: true}.Item(Keys{}, ConfigOwner{}, nil), "k_extends", "there is no list")
	assert.Nil(t, ConfigItem{Extends: true}.OrNone())
	item = c.Item(Keys{}, ConfigOwner{}, nil)
	item["k_rpm_off"] = &types.AttributeValueMemberBOOL{Value: true}
	_, err = DecodeConfig(item)
	require.ErrorContains(t, err, "limit rpm is both set and lifted")
	item["k_rpm_off"] = String("yes")
	_, err = DecodeConfig(item)
	require.ErrorContains(t, err, "k_rpm_off is not a BOOL")
	item["k_rpm_off"] = &types.AttributeValueMemberBOOL{}
	got, err = DecodeConfig(item)
	require.NoError(t, err)
	assert.Equal(t, c, got, "false takes no limit away")
	ConfigLimit{Name: "usd", Capacity: 1, Window: "day", Zone: "UTC", Unit: money}.putQuota(item)
	_, err = DecodeConfig(item)
	require.ErrorContains(t, err, "limit usd is both set and lifted")
	_, err = DecodeConfig(Item{"k_tpm_off": &types.AttributeValueMemberBOOL{Value: true}, "k_tpm_w": String("day")})
	var unknown *UnknownKind
	require.ErrorAs(t, err, &unknown, "windows of a limit that is lifted are of a later version")
}

func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Custom(func(t *rapid.T) ConfigLimit {
			n := rapid.Int64Range(1, 1_000_000_000_000)
			return ConfigLimit{rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_.\-]{0,63}`).Draw(t, "name"), n.Draw(t, "cp"), n.Draw(t, "bx"), n.Draw(t, "ra"), seconds(rapid.Int64Range(1, math.MaxInt64/int64(time.Second)).Draw(t, "rp")), "", "", "", false, false, 0, 0, 0, 0, 0}
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
	assert.Equal(t, []any{String("PARENT#"), String("CHILD#a")}, []any{item["GSI1PK"], item["GSI1SK"]}, "it leaves its parent, and has children")
	for _, name := range []string{"plan", "metadata_json", "deleting"} {
		assert.NotContains(t, item, name)
	}
	delete(old, "adoptions")
	assert.NotContains(t, EntityRecord{ID: "a", Version: 2}.Item(Keys{}, old), "GSI1PK")
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

func TestLeasesAreReadAsTheyWereWritten(t *testing.T) {
	want := Lease{Holder: "ann", Token: "t", Fence: 7, Until: 1_800_000_000_123}
	key := NewKeys("eu").Lease("manifest")
	assert.Equal(t, Key{"eu/MANIFEST#", "#LEASE"}, key)
	item := EncodeLease(key, want)
	assert.Equal(t, Item{
		"PK": String("eu/MANIFEST#"), "SK": String("#LEASE"), "holder": String("ann"), "token": String("t"), "fence": Number(7),
		"lease_until": Number(1_800_000_000_123), "ttl": Number(1_800_000_000 + 30*24*3600),
	}, item)
	got, err := DecodeLease(item)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	got, err = DecodeLease(nil)
	require.NoError(t, err)
	assert.Equal(t, Lease{}, got)
	for _, name := range []string{"fence", "lease_until"} {
		broken := EncodeLease(key, want)
		broken[name] = String("x")
		_, err = DecodeLease(broken)
		require.Error(t, err)
		delete(broken, name)
		_, err = DecodeLease(broken)
		require.ErrorContains(t, err, "missing")
	}
	assert.Equal(t, Statement{
		Update: "SET #0 = :0, #1 = :1", Condition: "#2 = :2", Names: map[string]string{"#0": "lease_until", "#1": "ttl", "#2": "token"},
		Values: Item{":0": Number(5000), ":1": Number(5 + 30*24*3600), ":2": String("t")},
	}, RenewLease("t", 5000))
	assert.Equal(t, "REMOVE #0", ReleaseLease("t").Update)
}

func TestNamesOfLeases(t *testing.T) {
	for _, good := range []string{"a", "manifest", "stream-shards", strings.Repeat("a", 64)} {
		assert.Empty(t, CheckLease(good))
	}
	for _, bad := range []string{"", "A", "-a", "a_b", "a#", "é", "1", strings.Repeat("a", 65)} {
		assert.NotEmpty(t, CheckLease(bad), bad)
	}
}

// TestCountedStandsWithoutUnlimited: a version that does not know the mark refuses the level. Beside the
// mark of unlimited it counts.
func TestCountedStandsWithoutUnlimited(t *testing.T) {
	item := ConfigItem{Unlimited: true, Counted: true}.Item(Keys{}, ConfigOwner{}, nil)
	require.NotContains(t, item, attrUnlimited)
	for range 2 {
		c, err := DecodeConfig(item)
		require.NoError(t, err)
		assert.Equal(t, ConfigItem{Unlimited: true, Counted: true}, c)
		item[attrUnlimited] = item[attrCounted]
	}
	assert.NotContains(t, ConfigItem{}.Item(Keys{}, ConfigOwner{}, item), attrCounted)
}
