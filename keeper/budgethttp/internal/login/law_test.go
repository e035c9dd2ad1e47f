package login

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// ticking lets the world's clock go with that of synctest, until the test ends.
func (w *world) ticking(t *testing.T) {
	const tick = 5 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pauseFor(ctx, nil, tick) == nil {
			w.clock.Advance(tick)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
}

// looked is how many secrets nodes looked at and found wrong.
func looked(nodes ...*node) (n int64) {
	for _, node := range nodes {
		n += node.store.Stats().RefusedLogins
	}
	return n
}

// Whoever hangs up, whatever crashes and whichever answers are lost, at three nodes: of a
// bucket ten logins that fail are looked at, and one more in six seconds. Afterwards nobody
// waits, and the bucket is whole again.
func TestFailuresStayWithinTheLimitWhateverHappens(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.ticking(t)
			c := w.client(orgO, appA)
			nodes := []*node{w.a, w.b, w.node()}
			flaky := fixture.Flaky(seed)
			w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				fault := flaky(r)
				fault.Before, fault.After = fault.Before+2*time.Millisecond, fault.After+2*time.Millisecond
				return fault
			})
			const callers, lasting = 24, 25 * time.Second
			start := time.Now()
			var group sync.WaitGroup
			for caller := range callers {
				rng := rand.New(rand.NewPCG(seed, uint64(caller)))
				group.Go(func() {
					for time.Since(start) < lasting {
						w.tryAtRandom(t, rng, nodes[rng.IntN(len(nodes))], c)
						_ = pauseFor(t.Context(), nil, time.Duration(rng.IntN(3000))*time.Millisecond)
					}
				})
			}
			group.Wait()
			allowed := 10 + int64(time.Since(start)/(6*time.Second))
			assert.LessOrEqual(t, looked(nodes...), allowed)
			assert.Greater(t, looked(nodes...)+w.crashed.Load(), allowed/2, "what crashed would have been looked at")
			for _, n := range nodes {
				assert.Empty(t, n.throttle.gates.byEntity)
				assert.Zero(t, n.throttle.gates.waiting)
			}
			w.db.SetFaults(nil)
			_ = pauseFor(t.Context(), nil, time.Minute)
			for range 10 {
				require.ErrorIs(t, w.try(w.b, home, c.ClientID, wrong), ErrUnauthorized)
			}
			assertThrottled(t, w.try(w.b, home, c.ClientID, wrong), "no more than before")
		})
	}
}

// tryAtRandom is a login from home that is good, fails, is left by its caller, or ends with
// its process.
func (w *world) tryAtRandom(t *testing.T, rng *rand.Rand, n *node, c credentials.Credentials) {
	ctx, secret := t.Context(), wrong
	switch rng.IntN(8) {
	case 0, 1:
		secret = c.Secret
	case 2, 3:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(40))*time.Millisecond)
		defer cancel()
	case 4:
		if a, err := n.throttle.beginLogin(ctx, home, c.ClientID); err == nil {
			w.crashed.Add(1)
			for _, taken := range a.taken { // a crash: nothing is written any more
				taken.leave()
			}
		}
		return
	}
	_, err := n.Token(ctx, home, c.ClientID, secret)
	known := err == nil || errors.Is(err, ErrUnauthorized) || errors.As(err, new(*ThrottledError)) ||
		errors.Is(err, dynalimit.ErrUnavailable) || ctx.Err() != nil
	assert.True(t, known, "%v", err)
}

// A clock that is set back does not make a refusal longer.
func TestRefusalEndsThoughTheClockIsSetBack(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -10 * time.Second, time.Hour} {
		w := newWorld(t)
		c := w.client(orgO, appA)
		clock := fixture.NewClock()
		store, err := credentials.New(w.db.Client(), "control", &credentials.Options{Keys: w.keys, Now: clock.Now})
		require.NoError(t, err)
		n := w.node(func(o *Options) { o.Store = store })
		for range 10 {
			require.ErrorIs(t, w.try(n, home, c.ClientID, wrong), ErrUnauthorized)
		}
		assertThrottled(t, w.try(n, home, c.ClientID, c.Secret), "ten failed")
		clock.Advance(step)
		assertThrottled(t, w.try(n, home, c.ClientID, c.Secret), "whatever the clock says")
		clock.Advance(6 * time.Second)
		w.clock.Advance(6 * time.Second)
		w.token(n, c)
	}
}

// A login that is refused for its client takes nothing from its address.
func TestRefusalsOfAClientLeaveTheAddressAlone(t *testing.T) {
	w := newWorld(t)
	c, other := w.client(orgO, appA), w.client(orgO, "")
	for i := range 10 {
		require.ErrorIs(t, w.try([]*node{w.a, w.b}[i%2], home, c.ClientID, wrong), ErrUnauthorized)
	}
	for i := range 124 {
		assertThrottled(t, w.try([]*node{w.a, w.b}[i%2], home, c.ClientID, wrong), "ten failed")
	}
	for _, n := range []*node{w.a, w.b} {
		assert.Empty(t, n.throttle.gates.byEntity)
		_, err := n.Token(t.Context(), home, other.ClientID, other.Secret)
		require.NoError(t, err, "another client, from where it was refused")
	}
}

// Strangers who make ids up have so many buckets written at an address, and no more; and
// none that is somebody's at another.
func TestBucketsOfClientsAreBounded(t *testing.T) {
	all := map[string]bool{}
	for i := range 1_000_000 {
		all[clientEntity(home, strconv.Itoa(i))] = true
	}
	buckets := len(all)
	assert.Equal(t, 1<<16, buckets)
	for i := range 1_000 {
		assert.False(t, all[clientEntity(address(i), "0")])
	}
}

// Logins that are under way hold what they took while the bucket refills: when they turn out
// to be good, as many more may fail at once as were under way, and no more than that. Since
// they began it is ten, and one more in six seconds.
func TestGoodLoginsUnderWayLengthenABurst(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	var good []*attempt
	for range 9 {
		a, err := w.a.throttle.beginLogin(t.Context(), home, c.ClientID)
		require.NoError(t, err)
		good = append(good, a)
	}
	w.clock.Advance(time.Minute)
	fail := func(n *node) {
		for w.try(n, home, c.ClientID, wrong) == ErrUnauthorized { //nolint:errorlint // it is that one
		}
	}
	fail(w.b)
	for _, a := range good {
		a.returnTokens(t.Context())
	}
	fail(w.a)
	assert.LessOrEqual(t, looked(w.a, w.b), int64(10+len(good)))
}
