package schema

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestOwnKeysAreNoUsers: no user names a key below the prefix of this project's own counters,
// nothing takes such a bucket for usage, and it lies in its namespace, whose record counts.
func TestOwnKeysAreNoUsers(t *testing.T) {
	for _, check := range []func(string) string{EntityRule.Check, ResourceRule.Check, CheckGroup} {
		assert.NotEmpty(t, check(ownPrefix))
		assert.NotEmpty(t, check("a/"+ownPrefix+"ENTITY#a"))
	}
	for _, name := range []string{"", "acme"} {
		users := NewKeys(name)
		own := OwnKeys(name)
		assert.True(t, IsOwn(own.Prefix()))
		assert.False(t, IsOwn(users.Prefix()))
		assert.Equal(t, name, own.Name())
		key, _ := users.Namespace()
		mine, is := own.Namespace()
		assert.Equal(t, key, mine)
		assert.Equal(t, name != "", is)
		bucket := own.Bucket("login-address:203.0.113.7", "login")
		assert.Equal(t, name != "", users.Within(bucket), "a purge removes it")
		_, _, _, counted := BucketOf(bucket)
		assert.False(t, counted)
		hour := own.Usage("a", "login", time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
		_, _, _, _, snapshot := UsageOf(hour)
		_, _, _, sum := UsageSeriesOf(hour)
		assert.False(t, snapshot || sum)
	}
}
