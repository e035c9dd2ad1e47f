package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
