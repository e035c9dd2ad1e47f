package schema

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDeniedKeys(t *testing.T) {
	hour := time.Date(2026, 3, 29, 12, 0, 0, 0, time.FixedZone("", 3600))
	for _, namespace := range []string{"", "eu"} {
		keys := NewKeys(namespace)
		key := keys.Denied("key-1", "org/gpt-4", hour)
		assert.Equal(t, Key{keys.Prefix() + "ENTITY#key-1", "#DENIED#org/gpt-4#2026-03-29T11:00:00Z"}, key)
		assert.Equal(t, keys.Prefix()+"DENIED#2026-03-29T11:00:00Z", keys.DeniedHour(hour))
		got, ok := DeniedOf(key)
		assert.True(t, ok)
		assert.Equal(t, Denied{Keys: keys, Entity: "key-1", Resource: "org/gpt-4", Hour: hour.UTC()}, got)
	}
	assert.Equal(t, "#DENIED#", DeniedPrefix(""))
	for _, other := range []Key{
		{},
		{"ENTITY#a", "#USAGE#gpt-4#2026-03-29T11:00:00Z"},
		{"ENTITY#a", "#DENIED#gpt-4#2026-03-29"},
		{"ENTITY#a", "#DENIED##2026-03-29T11:00:00Z"},
		{"ENTITY#a", "#DENIED#gpt-4"},
		{"ENTITY#", "#DENIED#gpt-4#2026-03-29T11:00:00Z"},
		{"PLAN#a", "#DENIED#gpt-4#2026-03-29T11:00:00Z"},
	} {
		_, ok := DeniedOf(other)
		assert.False(t, ok, "%v", other)
	}
}

func TestDeniedCodec(t *testing.T) {
	d := Denied{
		Keys: NewKeys("eu"), Entity: "key-1", Resource: "gpt-4", Hour: time.Date(2026, 3, 29, 11, 0, 0, 0, time.UTC),
		Limits: map[string]int64{"ttl": 3, "a_b": 9007199254740993, "rpm": 1}, Expires: 99,
	}
	st := d.Statement()
	assert.Equal(t, "SET #0 = :0, #1 = :1, #2 = :2, #3 = :3, #4 = :4 ADD #5 :5, #6 :6, #7 :7", st.Update)
	assert.Empty(t, st.Condition)
	item := d.Key().Attributes()
	for place, name := range st.Names {
		item[name] = st.Values[":"+place[1:]]
	}
	assert.Equal(t, "eu/DENIED#2026-03-29T11:00:00Z", Text(item, GSI2PK))
	assert.Equal(t, "key-1#gpt-4", Text(item, GSI2SK))
	got, err := DecodeDenied(item)
	require.NoError(t, err)
	assert.Equal(t, d, got)

	item["x_rpm"] = String("many")
	_, err = DecodeDenied(item)
	require.Error(t, err)
	_, err = DecodeDenied(Item{PK: String("p"), SK: String("s")})
	assert.ErrorContains(t, err, `item "p", "s" is none of denials`)

	d.Expires = 0
	assert.NotContains(t, d.Statement().Names, TTL)
}
