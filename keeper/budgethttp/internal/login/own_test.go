package login

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// Failed logins are counted beside what users configure: whatever that is, a good login passes,
// and ten failures of a client are refused as before.
func TestLoginsAreUnderNoConfigurationOfUsers(t *testing.T) {
	everyone, ofLogins := admin.Scope{Everyone: true}, admin.Scope{Everyone: true, Resource: resource}
	ofAddress := admin.Scope{Entity: addressEntity(home)}
	blocked := func(of admin.Scope) func(context.Context, *admin.Admin) error {
		return func(ctx context.Context, a *admin.Admin) error { return a.Limits.SetBlocked(ctx, of, true) }
	}
	limited := func(of admin.Scope, perMinute int64) func(context.Context, *admin.Admin) error {
		return func(ctx context.Context, a *admin.Admin) error {
			limits := []dynalimit.Limit{dynalimit.PerMinute(failures, perMinute), dynalimit.PerMinute(ended, perMinute)}
			return a.Limits.Set(ctx, of, limits)
		}
	}
	for name, configure := range map[string]func(context.Context, *admin.Admin) error{
		"a block of the system":            blocked(everyone),
		"a block of a resource login":      blocked(ofLogins),
		"a block of the address":           blocked(ofAddress),
		"a stricter limit of the system":   limited(everyone, 1),
		"a stricter limit of the resource": limited(ofLogins, 1),
		"a stricter limit of the address":  limited(ofAddress, 1),
		"a laxer limit of the address":     limited(ofAddress, 1000),
		"a policy of outages": func(ctx context.Context, a *admin.Admin) error {
			_, err := a.Limits.SetConfig(ctx, everyone, admin.LimitConfig{OnUnavailable: dynalimit.Allow})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.client(orgO, appA)
			require.NoError(t, configure(t.Context(), admin.New(w.repository())))
			w.token(w.a, c)
			for i := range 10 {
				require.ErrorIs(t, w.try([]*node{w.a, w.b}[i%2], home, c.ClientID, wrong), ErrUnauthorized)
			}
			assertThrottled(t, w.try(w.a, home, c.ClientID, c.Secret), "ten failed")
		})
	}
}

// What failed logins leave in the table lies below the prefix that no user can name.
func TestLoginsLeaveNothingAmongUsersItems(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	require.ErrorIs(t, w.try(w.a, home, c.ClientID, wrong), ErrUnauthorized)
	own := 0
	for _, key := range scan(t, w.db, "limits") {
		if strings.HasPrefix(key, "OWN#") {
			own++
			continue
		}
		assert.Equal(t, "SYSTEM#", key, "the table's version")
	}
	assert.Equal(t, 2, own, "the address and the client")
}
