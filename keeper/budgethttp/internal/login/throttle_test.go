package login

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

var wrong = credentials.NewSecret("dls_wrong")

// try fails to log in.
func (w *world) try(n *node, from netip.Addr, clientID string, secret credentials.Secret) error {
	w.t.Helper()
	_, err := n.Token(w.t.Context(), from, clientID, secret)
	require.Error(w.t, err)
	return err
}

// assertThrottled checks that a login was refused without a look, and says how long for.
func assertThrottled(t *testing.T, err error, why string) {
	t.Helper()
	var throttled *ThrottledError
	require.ErrorAs(t, err, &throttled, why)
	assert.Greater(t, throttled.RetryAfter, time.Duration(0), why)
	assert.LessOrEqual(t, throttled.RetryAfter, 6*time.Second, why)
}

// A hundred logins of an address may fail in a minute, whoever they are as, at whichever
// process; the next is refused unchecked, even if it is good.
func TestAddressIsLimitedAcrossProcesses(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	for i := range 100 {
		n := []*node{w.a, w.b}[i%2]
		err := w.try(n, home, credentials.ClientID(orgO, fmt.Sprint("app", i)), wrong)
		require.ErrorIs(t, err, ErrUnauthorized)
	}
	w.wire.take()
	for _, n := range []*node{w.a, w.b} {
		assertThrottled(t, w.try(n, home, c.ClientID, c.Secret), "a good login from there")
	}
	for _, request := range w.wire.take() {
		assert.NotContains(t, request, "control", "no secret was looked at")
	}
	_, err := w.a.Token(t.Context(), address(1), c.ClientID, c.Secret)
	require.NoError(t, err, "from elsewhere")
	w.clock.Advance(600 * time.Millisecond)
	_, err = w.b.Token(t.Context(), home, c.ClientID, c.Secret)
	require.NoError(t, err, "when one is forgotten")
}

// Ten logins of a client may fail in a minute at an address, at whichever process. It is
// refused there alone, and others are not.
func TestClientIsLimitedAtAnAddressAcrossProcesses(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	for i := range 10 {
		require.ErrorIs(t, w.try([]*node{w.a, w.b}[i%2], home, c.ClientID, wrong), ErrUnauthorized)
	}
	w.wire.take()
	for _, n := range []*node{w.a, w.b} {
		assertThrottled(t, w.try(n, home, c.ClientID, c.Secret), "a good login from there")
	}
	for _, request := range w.wire.take() {
		assert.NotContains(t, request, "control", "no secret was looked at")
	}
	for range 20 {
		assertThrottled(t, w.try(w.a, home, c.ClientID, wrong), "again and again")
	}
	assert.Empty(t, w.wire.take(), "which costs nothing")
	other := w.client(orgO, "")
	_, err := w.a.Token(t.Context(), home, other.ClientID, other.Secret)
	require.NoError(t, err, "another client, from where one was refused")
	w.clock.Advance(6 * time.Second)
	_, err = w.a.Token(t.Context(), home, c.ClientID, c.Secret)
	require.NoError(t, err, "when one is forgotten")
}

// Whatever strangers send as a client, from however many addresses, its own secret is good
// elsewhere, at every process.
func TestStrangersDoNotKeepAClientOut(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	for i := range 60 {
		for range 11 {
			_ = w.try([]*node{w.a, w.b}[i%2], address(i), c.ClientID, wrong)
		}
	}
	for i, n := range []*node{w.a, w.b} {
		assertThrottled(t, w.try(n, address(i), c.ClientID, c.Secret), "where strangers are")
		w.token(n, c)
	}
}

// Good logins cost nothing of the limit, however many there are.
func TestGoodLoginsAreNotLimited(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	for range 50 {
		w.token(w.a, c)
	}
}

// Of many logins at the same time from one address no more than ten are looked at.
func TestLoginsAtTheSameTimeAreLimited(t *testing.T) {
	w := newWorld(t)
	var looked, throttled atomic.Int64
	var group errgroup.Group
	for i := range 60 {
		group.Go(func() error {
			_, err := []*node{w.a, w.b}[i%2].Token(t.Context(), home, credentials.ClientID(orgO, "nobody"), wrong)
			switch {
			case errors.Is(err, ErrUnauthorized):
				looked.Add(1)
			case errors.As(err, new(*ThrottledError)):
				throttled.Add(1)
			default:
				return err
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	assert.LessOrEqual(t, looked.Load(), int64(10))
	assert.Positive(t, looked.Load())
	assert.Equal(t, int64(60), looked.Load()+throttled.Load())
}

// A client that does not exist gets no item, in no table, however often somebody tries.
func TestUnknownClientsMakeNoItem(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.PerAddress = 1000 })
	w.client(orgP, "")
	before := scan(t, w.db, "control")
	require.ErrorIs(t, w.try(w.a, home, credentials.ClientID(orgO, "first"), wrong), ErrUnauthorized)
	limits := len(scan(t, w.db, "limits"))
	for i := range 50 {
		require.ErrorIs(t, w.try(w.a, home, credentials.ClientID(orgO, "nobody-"+strings.Repeat("x", i)), wrong), ErrUnauthorized)
	}
	require.ErrorIs(t, w.try(w.a, home, strings.Repeat("y", 10_000), wrong), ErrUnauthorized)
	assert.LessOrEqual(t, len(scan(t, w.db, "limits")), limits+50)
	assert.NotContains(t, w.items("limits"), orgO)
	assert.ElementsMatch(t, before, scan(t, w.db, "control"))
}

// A host of IPv6 has a /64 to itself: all of it is one address.
func TestAddressesOfIPv6AreTakenTogether(t *testing.T) {
	assert.Equal(t, addressEntity(netip.MustParseAddr("2001:db8:0:1::1")), addressEntity(netip.MustParseAddr("2001:db8:0:1:ffff:ffff:ffff:ffff")))
	assert.NotEqual(t, addressEntity(netip.MustParseAddr("2001:db8:0:1::1")), addressEntity(netip.MustParseAddr("2001:db8:0:2::1")))
	assert.Equal(t, addressEntity(home), addressEntity(netip.MustParseAddr("::ffff:203.0.113.7")), "an address of IPv4 within IPv6")
	assert.NotEqual(t, addressEntity(home), addressEntity(netip.MustParseAddr("203.0.113.8")))
	assert.Equal(t, addressEntity(netip.MustParseAddr("fe80::1%eth0")), addressEntity(netip.MustParseAddr("fe80::2%eth1")))
	w := newWorld(t, func(o *Options) { o.PerAddress = 10 })
	for i := range 10 {
		from := netip.MustParseAddr("2001:db8:0:1::").As16()
		from[15] = byte(i)
		require.ErrorIs(t, w.try(w.a, netip.AddrFrom16(from), credentials.ClientID(orgO, "x"+string(rune('a'+i))), wrong), ErrUnauthorized)
	}
	assertThrottled(t, w.try(w.a, netip.MustParseAddr("2001:db8:0:1:8000::"), credentials.ClientID(orgO, "y"), wrong), "the same /64")
	require.ErrorIs(t, w.try(w.a, netip.MustParseAddr("2001:db8:0:2::"), credentials.ClientID(orgO, "y"), wrong), ErrUnauthorized)
	require.ErrorIs(t, w.try(w.a, netip.Addr{}, credentials.ClientID(orgO, "z"), wrong), ErrUnauthorized, "no address at all")
}

// While failures cannot be counted nobody logs in, also by a limiter that admits others
// then.
func TestNobodyLogsInWhileFailuresCannotBeCounted(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	_, err := admin.New(w.repository()).Limits.SetConfig(t.Context(), admin.Scope{Everyone: true}, admin.LimitConfig{OnUnavailable: dynalimit.Allow})
	require.NoError(t, err)
	limiter, err := dynalimit.New(w.repository(), &dynalimit.Options{OnUnavailable: dynalimit.Allow, Timeout: 100 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, limiter.Close(t.Context())) }()
	open := w.node(func(o *Options) { o.Limiter = limiter })
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: r.Table == "limits"} })
	require.ErrorIs(t, w.try(open, home, c.ClientID, c.Secret), dynalimit.ErrUnavailable)
	require.ErrorIs(t, w.try(open, address(1), c.ClientID, c.Secret), dynalimit.ErrUnavailable, "an address of which nothing is known")
	require.ErrorIs(t, w.try(open, home, "nobody's id", wrong), dynalimit.ErrUnavailable, "the address comes before whatever is said of the client")
	w.db.SetFaults(nil)
}

// A login that nobody could look at does not count as failed, and is not let in.
func TestLoginWhileTheStoreDoesNotAnswerIsNotCounted(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	brief := w.brief()
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: r.Table == "control"} })
	for range 12 {
		require.ErrorIs(t, w.try(brief, home, c.ClientID, c.Secret), credentials.ErrUnavailable)
	}
	w.db.SetFaults(nil)
	w.token(w.a, c)
}

// together logs in n times at the same time, at each node in turn, and returns the errors.
func (w *world) together(n int, login func(i int) error) []error {
	w.t.Helper()
	errs := make([]error, n)
	var group errgroup.Group
	for i := range n {
		group.Go(func() error { errs[i] = login(i); return nil })
	}
	require.NoError(w.t, group.Wait())
	return errs
}

// Good logins at the same time, from one address and as one client, all pass, though more
// are under way than may fail; nothing of the limits is left taken.
func TestGoodLoginsAtTheSameTimeAllPass(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.PerAddress = 10 })
	c, other := w.client(orgO, appA), w.client(orgO, "")
	for _, err := range w.together(60, func(i int) error {
		who := []credentials.Credentials{c, other}[i/2%2]
		_, err := []*node{w.a, w.b}[i%2].Token(t.Context(), home, who.ClientID, who.Secret)
		return err
	}) {
		require.NoError(t, err)
	}
	for range 10 {
		require.ErrorIs(t, w.try(w.b, home, c.ClientID, wrong), ErrUnauthorized)
	}
	assertThrottled(t, w.try(w.a, home, c.ClientID, c.Secret), "ten failed")
}

// Ten logins of a client may fail in a minute at each of two addresses, also at the same
// time.
func TestFailuresOfAClientAtTheSameTimeAreLimited(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	looked := map[int]int{}
	for i, err := range w.together(60, func(i int) error { return w.failed(i, c) }) {
		if errors.Is(err, ErrUnauthorized) {
			looked[i/2%2]++
		} else {
			assertThrottled(t, err, address(i/2%2).String())
		}
	}
	assert.Equal(t, map[int]int{0: 10, 1: 10}, looked)
}

// failed fails to log in as a client for the i-th time, from one of two addresses, at one of
// two processes.
func (w *world) failed(i int, c credentials.Credentials) error {
	_, err := []*node{w.a, w.b}[i%2].Token(w.t.Context(), address(i/2%2), c.ClientID, wrong)
	return err
}

// A login waits for others that are under way at another process: not without end, not
// longer than its caller, and it leaves nothing taken.
func TestLoginsWaitForOthersUnderWay(t *testing.T) {
	w := newWorld(t)
	c := w.client(orgO, appA)
	var others []*attempt
	for range 10 {
		a, err := w.b.throttle.beginLogin(t.Context(), home, c.ClientID)
		require.NoError(t, err)
		others = append(others, a)
	}
	for name, n := range map[string]*node{"elsewhere": w.a, "here": w.b} {
		n.throttle.patience = 50 * time.Millisecond
		assertThrottled(t, w.try(n, home, c.ClientID, c.Secret), name)
		n.throttle.patience = time.Hour
		gone, leave := context.WithCancelCause(t.Context())
		left := errors.New("left")
		leaving := make(chan error)
		go func() {
			_, err := n.Token(gone, home, c.ClientID, c.Secret)
			leaving <- err
		}()
		require.Eventually(t, func() bool { return n.throttle.gates.at(clientEntity(home, c.ClientID)) > 0 }, time.Minute, time.Millisecond)
		leave(left)
		err := <-leaving
		require.Error(t, err)
		require.NotErrorAs(t, err, new(*ThrottledError))
	}
	waiting := make(chan error)
	for _, n := range []*node{w.a, w.b} {
		go func() {
			_, err := n.Token(t.Context(), home, c.ClientID, c.Secret)
			waiting <- err
		}()
	}
	for i, a := range others {
		if i < 5 {
			a.returnTokens(t.Context())
		} else {
			a.keepTokens(t.Context())
		}
	}
	for range 2 {
		require.NoError(t, <-waiting)
	}
	for range 5 {
		require.ErrorIs(t, w.try(w.a, home, c.ClientID, wrong), ErrUnauthorized)
	}
	for _, n := range []*node{w.a, w.b} {
		assertThrottled(t, w.try(n, home, c.ClientID, c.Secret), "five failed, and five")
		assert.Empty(t, n.throttle.gates.byEntity)
		assert.Zero(t, n.throttle.gates.waiting)
	}
}

// at is how many are at a bucket.
func (g *gates) at(entity string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.byEntity[entity]; at != nil {
		return at.users
	}
	return 0
}

// A login that ends in a panic counts as failed, and takes nobody's place.
func TestLoginThatPanicsCounts(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.a.store.Import(t.Context(), orgO, appA, credentials.NewSecret("theirs")))
	store, err := credentials.New(w.db.Client(), "control", &credentials.Options{
		Keys: w.keys, Now: w.clock.Now, ImportedHash: func(_, _ credentials.Secret) bool { panic("theirs") },
	})
	require.NoError(t, err)
	n := w.node(func(o *Options) { o.Store = store })
	for range 10 {
		assert.Panics(t, func() { _, _ = n.Token(t.Context(), home, credentials.ClientID(orgO, appA), wrong) })
	}
	assert.Empty(t, n.throttle.gates.byEntity)
	assertThrottled(t, w.try(n, home, credentials.ClientID(orgO, appA), wrong), "ten ended")
}
