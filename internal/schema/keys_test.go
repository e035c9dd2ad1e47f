package schema

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
)

// What is wrong is told in characters, with all that is allowed.
func TestIdentifierTexts(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{EntityRule.Check("mötör"), `"mötör" contains 'ö'; use letters, digits and _ . - : @`},
		{EntityRule.Check("é"), `"é" starts with 'é'; start with a letter or digit`},
		{EntityRule.Check("a/b"), `"a/b" contains '/'; use letters, digits and _ . - : @`},
		{ResourceRule.Check("a#b"), `"a#b" contains '#'; use letters, digits and _ . - : @ /`},
		{ResourceRule.Check("a/b"), ""},
		{LimitRule.Check("tpmé"), `"tpmé" contains 'é'; use letters, digits and _ . -`},
		{LimitRule.Check("用户"), `"用户" starts with '用'; start with a letter`},
		{LimitRule.Check("1rpm"), `"1rpm" starts with '1'; start with a letter`},
		{LimitRule.Check("r1_.-"), ""},
		{EntityRule.Check(strings.Repeat("x", 256)), ""},
		{EntityRule.Check(strings.Repeat("é", 257)), "has 257 characters; at most 256 are allowed"},
		{LimitRule.Check(strings.Repeat("x", 65)), "has 65 characters; at most 64 are allowed"},
		{LimitRule.Check(strings.Repeat("x", 64)), ""},
		{LimitRule.Check("azAZ09"), ""},
		{LimitRule.Check("a`"), "\"a`\" contains '`'; use letters, digits and _ . -"},
		{LimitRule.Check("a{"), `"a{" contains '{'; use letters, digits and _ . -`},
		{LimitRule.Check("a["), `"a[" contains '['; use letters, digits and _ . -`},
		{LimitRule.Check("a@"), `"a@" contains '@'; use letters, digits and _ . -`},
		{LimitRule.Check("aš"), `"aš" contains 'š'; use letters, digits and _ . -`}, // its low byte is an 'a'
		{LimitRule.Check("Zz"), ""},
		{LimitRule.Check("zA"), ""},
		{LimitRule.Check("["), `"[" starts with '['; start with a letter`},
		{EntityRule.Check("a/"), `"a/" contains '/'; use letters, digits and _ . - : @`}, // before '0'
		{EntityRule.Check("a;"), `"a;" contains ';'; use letters, digits and _ . - : @`}, // after ':'
		{EntityRule.Check("0"), ""},
		{EntityRule.Check("9"), ""},
		{EntityRule.Check("Z"), ""},
		{EntityRule.Check(":"), `":" starts with ':'; start with a letter or digit`}, // after '9'
		{EntityRule.Check("a\xff"), `"a\xff" contains '�'; use letters, digits and _ . - : @`},
	} {
		assert.Equal(t, test.want, test.got)
	}
}

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

func TestUsageKeysAreReadAsTheyWereMade(t *testing.T) {
	for _, namespace := range []string{"", "eu"} {
		for _, window := range []UsageWindow{UsageHourly, UsageDaily, UsageMonthly} {
			for _, kind := range []UsageKind{UsageOfEntity, UsageOfResource, UsageOfPlan, UsageOfChildren} {
				s := UsageSeries{Kind: kind, ID: "a:b@c", Resource: "org/gpt-4", Window: window}
				if kind == UsageOfResource {
					s.ID = s.Resource
				}
				start := window.Floor(time.Date(2026, 3, 29, 11, 0, 0, 0, time.UTC))
				keys, got, at, ok := UsageSeriesOf(s.Key(NewKeys(namespace), start))
				assert.True(t, ok)
				assert.Equal(t, NewKeys(namespace), keys)
				assert.Equal(t, s, got)
				assert.Equal(t, start, at)
			}
		}
	}
	for _, other := range []Key{
		{},
		{"ENTITY#a", "#META"},
		{"ENTITY#a", "#BUCKET#gpt-4"},
		{"ENTITY#a", "#USAGE#gpt-4#2026-03-29"},
		{"ENTITY#a", "#USAGE##2026-03-29T11:00:00Z"},
		{"ENTITY#a", "#DENIED#gpt-4#2026-03-29T11:00:00Z"},
		{"ENTITY#", "#USAGE#gpt-4#2026-03-29T11:00:00Z"},
		{"SYSTEM#", "#USAGE_DAY#gpt-4#2026-03-29"},
	} {
		_, _, _, ok := UsageSeriesOf(other)
		assert.False(t, ok, "%v", other)
	}
}

func TestPartitionsAreSplit(t *testing.T) {
	for pk, want := range map[string][2]string{
		"ENTITY#a": {"", "ENTITY#a"}, "eu/ENTITY#a": {"eu", "ENTITY#a"}, "RESOURCE#org/gpt-4": {"", "RESOURCE#org/gpt-4"},
		"eu/AUDIT#$RESOURCE:org/gpt-4": {"eu", "AUDIT#$RESOURCE:org/gpt-4"}, "AUDIT#$RESOURCE:org/gpt-4": {"", "AUDIT#$RESOURCE:org/gpt-4"}, "": {}, "/x": {"", "/x"},
	} {
		keys, rest := SplitNamespace(pk)
		assert.Equal(t, want, [2]string{keys.Name(), rest}, pk)
	}
}

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

func TestStanding(t *testing.T) {
	for _, test := range []struct {
		name   string
		record VersionRecord
		want   Standing
	}{
		{"ours", VersionRecord{Schema: "0.8.0"}, Current},
		{"of another patch", VersionRecord{Schema: "0.8.7", ClientMin: "0.8.1"}, Current},
		{"nothing said", VersionRecord{}, Missing},
		{"zae-limiter 0.7", VersionRecord{Schema: "0.7.0", UpdatedBy: "client:0.7.0"}, Older},
		{"zae-limiter 0.6, by its writer", VersionRecord{Schema: "1.0.0", UpdatedBy: "cli:0.6.1"}, Older},
		{"zae-limiter 0.6, between releases", VersionRecord{Schema: "1.0.0", UpdatedBy: "client:0.6.2.dev3+g0123abc"}, Older},
		{"zae-limiter 0.5, by its aggregator", VersionRecord{Schema: "1.0.0", Lambda: "0.5.0"}, Older},
		{"a later 1.0.0", VersionRecord{Schema: "1.0.0", UpdatedBy: "client:1.0.0", Lambda: "1.0.0"}, Incompatible},
		{"a 1.0.0 of nobody known", VersionRecord{Schema: "1.0.0"}, Incompatible},
		{"1.0.1 is later whoever wrote it", VersionRecord{Schema: "1.0.1", UpdatedBy: "cli:0.6.1"}, Incompatible},
		{"a newer major", VersionRecord{Schema: "v2.0.0-rc1"}, Incompatible},
		{"a newer minor", VersionRecord{Schema: "0.10.0"}, Newer},
		{"no number", VersionRecord{Schema: "latest"}, Incompatible},
		{"a newer client wanted", VersionRecord{Schema: "0.8.0", ClientMin: "0.8.2"}, ClientTooOld},
		{"an older client allowed", VersionRecord{Schema: "0.8.0", ClientMin: "0.0.0"}, Current},
		{"a wish that is no number", VersionRecord{Schema: "0.8.0", ClientMin: "any"}, Current},
	} {
		assert.Equal(t, test.want, test.record.Standing("0.8.0", "0.8.1"), test.name)
	}
}

func TestVersionRecordIsReadAsWritten(t *testing.T) {
	record := VersionRecord{Schema: "0.8.0", ClientMin: "0.0.0", CompositeOnly: true, UpdatedBy: "x", UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	got, ok := DecodeVersion(record.Item())
	assert.True(t, ok)
	assert.Equal(t, record, got)
	assert.Equal(t, Key{"SYSTEM#", "#VERSION"}, VersionKey(), "one for the table")

	_, ok = DecodeVersion(nil)
	assert.False(t, ok)
}

// Writers before 0.6 nest the record, as they nest everything.
func TestNestedVersionRecord(t *testing.T) {
	item := VersionKey().Attributes()
	item["data"] = &types.AttributeValueMemberM{Value: Item{
		"schema_version": String("1.0.0"), "client_min_version": String("0.0.0"), "updated_at": String("2026-01-02T03:04:05Z"),
		"lambda_version": &types.AttributeValueMemberNULL{Value: true}, "updated_by": String("client:0.5.0"),
	}}
	got, ok := DecodeVersion(item)
	assert.True(t, ok)
	assert.Equal(t, VersionRecord{Schema: "1.0.0", ClientMin: "0.0.0", UpdatedBy: "client:0.5.0", UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, got)
	assert.Equal(t, Older, got.Standing("0.8.0", "0.8.1"))
}
