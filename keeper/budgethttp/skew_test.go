package budgethttp

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// skewed is a node of a process whose clock is wrong.
func (w *world) skewed(by time.Duration) *node {
	w.t.Helper()
	now := func() time.Time { return w.clock.Now().Add(by) }
	store, err := credentials.New(w.client, w.tables.Control, &credentials.Options{
		Keys: w.keys, Now: now, Principal: fixture.Principal, RequestTimeout: 10 * time.Second, Timeout: 20 * time.Second,
	})
	require.NoError(w.t, err)
	repo, err := dynalimit.NewRepository(w.client, w.limits, &dynalimit.RepositoryOptions{Principal: fixture.Principal, Now: now})
	require.NoError(w.t, err)
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Timeout: 20 * time.Second})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, limiter.Close(context.Background())) })
	o := w.options()
	o.Now, o.Limiter, o.Random = now, limiter, nil // ids of tokens differ
	s, err := New(w.keeper(func(o *budget.Options) { o.Now = now }), store, o)
	require.NoError(w.t, err)
	return w.serve(s, s)
}

// Two processes whose clocks are four minutes apart hand out, take and end each other's
// secrets and tokens, and count failed logins together: time that one is ahead of the other
// passes once.
func TestProcessesNeedNotAgreeOnTheTime(t *testing.T) {
	w := newWorld(t)
	ahead, behind := w.skewed(2*time.Minute), w.skewed(-2*time.Minute)
	for _, nodes := range [][2]*node{{ahead, behind}, {behind, ahead}} {
		one, other := nodes[0], nodes[1]
		org := "550e8400-e29b-41d4-a716-44665544000" + map[*node]string{ahead: "5", behind: "6"}[one]
		path := "/api/v1/orgs/" + org
		put := one.as("key").do(http.MethodPut, path, exampleOrg).is(http.StatusCreated)
		w.clock.Advance(5 * time.Minute)
		secret := other.as("key").do(http.MethodPost, path+"/credentials/secret", example{"token": put.text("retrieval_token")}).is(http.StatusOK)
		id := secret.text("client_id")
		login := one.as("").do(http.MethodPost, "/auth/token", example{"client_id": id, "client_secret": secret.text("client_secret")}).is(http.StatusOK)
		other.as(login.text("access_token")).get(path + "/aggregates/today").is(http.StatusOK)
		refresh := example{"refresh_token": login.text("refresh_token")}
		renewed := other.as("").do(http.MethodPost, "/auth/refresh", refresh).is(http.StatusOK).text("access_token")
		one.as(renewed).get(path + "/aggregates/today").is(http.StatusOK)

		other.as(renewed).do(http.MethodPost, "/auth/revoke", example{"token": renewed}).is(http.StatusNoContent)
		w.clock.Advance(credentials.CacheTTL)
		one.as(renewed).get(path+"/aggregates/today").fails(http.StatusUnauthorized, wire.Unauthorized)
		other.as("key").do(http.MethodPost, path+"/credentials/rotate", example{"grace_hours": 0}).is(http.StatusOK)
		one.as("").do(http.MethodPost, "/auth/refresh", refresh).fails(http.StatusUnauthorized, wire.Unauthorized)

		w.clock.Advance(2 * time.Minute)
		looked := map[*node]int{}
		for i := range 48 {
			n := nodes[i/24]
			r := n.as("").do(http.MethodPost, "/auth/token", example{"client_id": id, "client_secret": "wrong"})
			if r.status == http.StatusUnauthorized {
				looked[n]++
			} else {
				r.fails(http.StatusTooManyRequests, wire.RateLimitExceeded)
			}
		}
		assert.Equal(t, 10, looked[one])
		assert.Equal(t, map[*node]int{ahead: 10}[other], looked[other], "what is refilled in the time between the clocks, once")
		w.clock.Advance(10 * time.Minute)
	}
}
