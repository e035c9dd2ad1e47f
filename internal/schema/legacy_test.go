package schema

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// legacyItems are items as a version of zae-limiter before 0.8 writes them.
func legacyItems(t *testing.T, version string) []Item {
	t.Helper()
	data, err := os.ReadFile("testdata/zae-" + version + "-items.json")
	require.NoError(t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	return items
}

// legacyRefill is the latest refill of the fixtures.
const legacyRefill = 1795254842000

// The items of each version are read alike, whatever the layout of their attributes.
func TestLegacyItems(t *testing.T) {
	rpm := bucket.Rate{Burst: 100_000, Amount: 100_000, Period: 60_000}
	tpm := bucket.Rate{Burst: 15_000_000, Amount: 10_000_000, Period: 60_000}
	for version, want := range map[string]struct {
		buckets []LegacyBucket
		limits  []LegacyLimit
	}{
		"0.5": {
			[]LegacyBucket{
				{Legacy: Legacy{IsBucket: true, Owner: ConfigOwner{Entity: "key-1", Resource: "gpt-4"}, Limit: "rpm"}, State: bucket.State{Rate: rpm, Refilled: legacyRefill}, Capacity: 100_000, Consumed: 100_000, TTL: 1795341242},
				{Legacy: Legacy{IsBucket: true, Owner: ConfigOwner{Entity: "key-1", Resource: "gpt-4"}, Limit: "tpm"}, State: bucket.State{Rate: tpm, Tokens: -2_500_000, Refilled: legacyRefill - 1500}, Capacity: 10_000_000, TTL: 1795341240},
			},
			[]LegacyLimit{
				{Legacy: Legacy{Owner: ConfigOwner{Entity: "key-1", Resource: "gpt-4"}, Limit: "rpm"}, ConfigLimit: ConfigLimit{"rpm", 100, 100, 100, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
				{Legacy: Legacy{Owner: ConfigOwner{Entity: "key-1", Resource: "gpt-4"}, Limit: "tpm"}, ConfigLimit: ConfigLimit{"tpm", 10_000, 15_000, 10_000, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
				{Legacy: Legacy{Owner: ConfigOwner{Entity: "key-1", Resource: "_default_"}, Limit: "rpm"}, ConfigLimit: ConfigLimit{"rpm", 20, 20, 20, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
			},
		},
		"0.6": {
			[]LegacyBucket{
				{Legacy: Legacy{IsBucket: true, Owner: ConfigOwner{Entity: "key-1", Resource: "gpt-4"}, Limit: "rpm"}, State: bucket.State{Rate: rpm, Refilled: legacyRefill}, Capacity: 100_000, Consumed: 100_000, TTL: 1795341242},
				{Legacy: Legacy{IsBucket: true, Owner: ConfigOwner{Entity: "key-1", Resource: "gpt-4"}, Limit: "tpm"}, State: bucket.State{Rate: tpm, Tokens: -2_500_000, Refilled: legacyRefill - 1500}, Capacity: 10_000_000, Consumed: 12_500_000, TTL: 1795341240},
				{Legacy: Legacy{IsBucket: true, Owner: ConfigOwner{Entity: "proj-1", Resource: "gpt-4"}, Limit: "rpm"}, State: bucket.State{Rate: bucket.Rate{Burst: 1_000_000, Amount: 1_000_000, Period: 60_000}, Tokens: 500_000, Refilled: legacyRefill - 250}, Capacity: 1_000_000, Consumed: 740_000, TTL: 1795341241},
			},
			[]LegacyLimit{
				{Legacy: Legacy{Limit: "rpm"}, ConfigLimit: ConfigLimit{"rpm", 50, 50, 50, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
				{Legacy: Legacy{Owner: ConfigOwner{Resource: "gpt-4"}, Limit: "rpm"}, ConfigLimit: ConfigLimit{"rpm", 100, 100, 100, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
				{Legacy: Legacy{Owner: ConfigOwner{Resource: "gpt-4"}, Limit: "tpm"}, ConfigLimit: ConfigLimit{"tpm", 10_000, 15_000, 10_000, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
				{Legacy: Legacy{Owner: ConfigOwner{Entity: "proj-1", Resource: "_default_"}, Limit: "rpm"}, ConfigLimit: ConfigLimit{"rpm", 1000, 1000, 1000, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
				{Legacy: Legacy{Owner: ConfigOwner{Entity: "key-1", Resource: "claude-3"}, Limit: "rpm"}, ConfigLimit: ConfigLimit{"rpm", 20, 20, 20, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}},
			},
		},
		"0.7": {nil, []LegacyLimit{{Legacy: Legacy{Owner: ConfigOwner{Entity: "key-1", Resource: "gpt-4"}, Limit: "rpm"}, ConfigLimit: ConfigLimit{"rpm", 100, 100, 100, 60 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}},
	} {
		t.Run(version, func(t *testing.T) {
			var buckets []LegacyBucket
			var limits []LegacyLimit
			for _, item := range legacyItems(t, version) {
				switch l, ok := LegacyOf(KeyOf(item)); {
				case ok && l.IsBucket:
					b, err := DecodeLegacyBucket(item)
					require.NoError(t, err)
					assert.NotEmpty(t, b.Unchanged.Condition)
					assert.Equal(t, KeyOf(item), b.Key)
					b.Unchanged, b.Key = Statement{}, Key{}
					buckets = append(buckets, b)
				case ok:
					l, err := DecodeLegacyLimit(item)
					require.NoError(t, err)
					assert.NotEmpty(t, l.Unchanged.Condition)
					l.Unchanged, l.Key = Statement{}, Key{}
					limits = append(limits, l)
				}
			}
			assert.Equal(t, want.buckets, buckets)
			assert.Equal(t, want.limits, limits)
		})
	}
	record, _ := DecodeVersion(legacyItems(t, "0.5")[0])
	assert.Equal(t, Older, record.Standing("0.8.0", "0.8.1"))
}

// A key of the older layout is told from every other, in any namespace.
func TestLegacyOf(t *testing.T) {
	for key, want := range map[Key]Legacy{
		{"ENTITY#a:b@c", "#BUCKET#openai/gpt-4#rpm"}: {IsBucket: true, Owner: ConfigOwner{Entity: "a:b@c", Resource: "openai/gpt-4"}, Limit: "rpm"},
		{"eu/ENTITY#a", "#BUCKET#r#rpm"}:             {Keys: NewKeys("eu"), IsBucket: true, Owner: ConfigOwner{Entity: "a", Resource: "r"}, Limit: "rpm"},
		{"ENTITY#a", "#LIMIT#_default_#rpm"}:         {Owner: ConfigOwner{Entity: "a", Resource: "_default_"}, Limit: "rpm"},
		{"eu/RESOURCE#a/b", "#LIMIT#rpm"}:            {Keys: NewKeys("eu"), Owner: ConfigOwner{Resource: "a/b"}, Limit: "rpm"},
		{"SYSTEM#", "#LIMIT#rpm"}:                    {Limit: "rpm"},
		{"eu/SYSTEM#", "#LIMIT#rpm"}:                 {Keys: NewKeys("eu"), Limit: "rpm"},
	} {
		got, ok := LegacyOf(key)
		assert.True(t, ok, key)
		assert.Equal(t, want, got)
	}
	for _, key := range []Key{
		{"ENTITY#a", "#BUCKET#r"},
		{"ENTITY#a", "#BUCKET#r#"},
		{"ENTITY#a", "#BUCKET##rpm"},
		{"ENTITY#a", "#BUCKET#r#rpm#x"},
		{"ENTITY#", "#BUCKET#r#rpm"},
		{"ENTITY#a", "#LIMIT#rpm"},
		{"ENTITY#a", "#CONFIG#r"},
		{"ENTITY#a", "#META"},
		{"RESOURCE#r", "#BUCKET#r#rpm"},
		{"RESOURCE#r", "#LIMIT#a#b"},
		{"RESOURCE#", "#LIMIT#rpm"},
		{"SYSTEM#", "#CONFIG"},
		{"SYSTEM#x", "#LIMIT#rpm"},
		{"AUDIT#ENTITY#a", "#LIMIT#r#rpm"},
		{"PARENT#a", "#LIMIT#r#rpm"},
		{"a#b/ENTITY#a", "#LIMIT#r#rpm"},
		{"xENTITY#a", "#LIMIT#r#rpm"},
		{},
	} {
		_, ok := LegacyOf(key)
		assert.False(t, ok, key)
	}
}

// What cannot be understood is an error that names the item, never left out.
func TestMalformedLegacyItems(t *testing.T) {
	for _, version := range []string{"0.5", "0.6"} {
		for _, item := range legacyItems(t, version) {
			l, ok := LegacyOf(KeyOf(item))
			if !ok {
				continue
			}
			decode := func(item Item) error { _, err := DecodeLegacyLimit(item); return err }
			required := []string{legacyLimitCapacity, legacyLimitPeriod}
			if l.IsBucket {
				decode = func(item Item) error { _, err := DecodeLegacyBucket(item); return err }
				required = []string{legacyTokens, legacyRefilled, legacyBurst, legacyAmount, legacyPeriod}
			}
			require.NoError(t, decode(item))
			attributes := legacyAttributes(item, required[0])
			for _, name := range required {
				was := attributes[name]
				for _, wrong := range []Item{{}, {name: String("many")}, {name: &types.AttributeValueMemberN{Value: "1.5"}}} {
					delete(attributes, name)
					if wrong[name] != nil {
						attributes[name] = wrong[name]
					}
					err := decode(item)
					require.ErrorContains(t, err, name)
					assert.ErrorContains(t, err, KeyOf(item).SK)
				}
				attributes[name] = was
			}
		}
	}
}

// A composite bucket is worth at every moment what the buckets of its limits were.
func TestComposedBucketKeepsItsLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(1_700_000_000_000, 1_700_000_100_000).Draw(t, "now")
		limits := make([]LegacyBucket, rapid.IntRange(1, 5).Draw(t, "limits"))
		for i := range limits {
			rate := bucket.Rate{
				Burst:  rapid.Int64Range(1, 1e12).Draw(t, "burst"),
				Amount: rapid.Int64Range(1, 1e12).Draw(t, "amount"),
				Period: rapid.Int64Range(1, 1e8).Draw(t, "period"),
			}
			limits[i] = LegacyBucket{
				Legacy: Legacy{IsBucket: true, Owner: ConfigOwner{Entity: "a", Resource: "r"}, Limit: string(rune('a' + i))},
				State: bucket.State{
					Rate:     rate,
					Tokens:   rapid.Int64Range(-2*rate.Burst, rate.Burst+10).Draw(t, "tokens"),
					Refilled: now + rapid.Int64Range(-1e7, 5000).Draw(t, "refilled"),
				},
				Capacity: rapid.Int64Range(1, 1e12).Draw(t, "capacity"),
				Consumed: rapid.Int64Range(0, 1e15).Draw(t, "consumed"),
			}
		}
		last := now
		for _, l := range limits {
			last = max(last, l.Refilled)
		}
		shuffled := append([]LegacyBucket(nil), limits...)
		rand.New(rand.NewPCG(uint64(now), 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		c := ComposeBucket(limits[0].Legacy, shuffled, now)
		c.OpID = []byte("123456789")
		image, err := NewLimitSets().DecodeBucket(c.Item(), nil, 0)
		require.NoError(t, err)
		assert.LessOrEqual(t, image.Refilled, now)
		assert.Nil(t, image.Fingerprint, "its first write brings the configuration")
		assert.Equal(t, c.OpID, image.Incarnation)
		require.Len(t, image.Limits, len(limits))
		for i, l := range limits {
			stored := image.Limits[i]
			assert.Equal(t, l.Limit, image.Set.Names[i])
			assert.Equal(t, l.Rate, stored.Rate)
			assert.Equal(t, l.Capacity, stored.Capacity)
			assert.Equal(t, l.Consumed, stored.Consumed)
			assert.False(t, stored.Ghost)
			for _, at := range []int64{last, last + 1, last + 777, last + l.Period, last + 1e9} {
				assert.Equal(t, l.Level(at), image.State(i).Level(at), "limit %s, %d ms later", l.Limit, at-now)
			}
			for _, at := range []int64{now, now + 1, now + 2500} {
				assert.LessOrEqual(t, image.State(i).Level(at), l.Level(at), "never more")
			}
		}
	})
}

// A configuration that says what limits the owner wins over the items of its limits.
func TestComposeConfig(t *testing.T) {
	owner := ConfigOwner{Entity: "a", Resource: "r"}
	limits := []LegacyLimit{{ConfigLimit: ConfigLimit{"tpm", 5, 6, 7, 8 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}, {ConfigLimit: ConfigLimit{"rpm", 1, 2, 3, 4 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}}
	both := []ConfigLimit{{"rpm", 1, 2, 3, 4 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}, {"tpm", 5, 6, 7, 8 * time.Second, "", "", "", false, false, 0, 0, 0, 0, 0}}
	for name, test := range map[string]struct {
		stored *ConfigItem
		want   ConfigItem
		ok     bool
	}{
		"nothing stored": {nil, ConfigItem{Limits: both, Version: 1}, true},
		"only a policy":  {&ConfigItem{OnUnavailable: "allow", Blocked: true, Version: 4}, ConfigItem{OnUnavailable: "allow", Blocked: true, Limits: both, Version: 5}, true},
		"limits":         {&ConfigItem{Limits: both[:1], Version: 4}, ConfigItem{Limits: both[:1], Version: 4}, false},
		"unlimited":      {&ConfigItem{Unlimited: true, Version: 4}, ConfigItem{Unlimited: true, Version: 4}, false},
	} {
		var stored Item
		if test.stored != nil {
			stored = test.stored.Item(Keys{}, owner, nil)
		}
		got, ok, err := ComposeConfig(stored, limits)
		require.NoError(t, err, name)
		assert.Equal(t, test.ok, ok, name)
		assert.Equal(t, test.want, got, name)
	}
	_, _, err := ComposeConfig(Item{"l_rpm_cp": Number(1)}, limits)
	require.ErrorContains(t, err, "l_rpm_rp is missing")
}
