package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/bookkeeping"
	"github.com/dynalimit/dynalimit/internal/origin"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

const (
	// resource is the resource of this project's internal counters.
	resource = "login"
	// failures is a limit. A login takes one token before its secret is checked, and gives it
	// back if it does not fail.
	failures = "failed_logins"
	// ended is an equal limit. A login takes one token after it has failed. Once ended is
	// exhausted, no pending login will give anything back.
	ended = "ended_logins"

	addressPrefix = "login-address:"
	clientPrefix  = "login-client:"

	// patience is how long a login waits for other pending logins.
	patience = 5 * time.Second
	// firstLook and lastLook bound the interval at which it checks for logins of other
	// processes.
	firstLook, lastLook = 10 * time.Millisecond, 200 * time.Millisecond
	// rememberedRefusals is the maximal number of cached exhausted buckets.
	rememberedRefusals = 10_000
)

var (
	one      = dynalimit.Amounts{failures: 1}
	oneEnded = dynalimit.Amounts{ended: 1}
	both     = dynalimit.Amounts{failures: 1, ended: 1}
)

// throttle limits failed logins with buckets that all processes share. The buckets are
// internal: no configuration or block applies to them, and no usage report contains them. While
// failures cannot be counted, logins are refused. A login takes a token from its address, and
// then from its client at that address, before anything is checked. It gives them back if it
// does not fail. So the limits also hold for concurrent logins. A login that finds a bucket
// exhausted by pending logins, in any process, waits for them. A login that finds it exhausted
// by failures is refused.
//
// No bucket belongs to a client at all addresses, or a stranger who knows its id could lock it
// out. The buckets do not reveal whether a client exists: they depend on the id and the address
// alone, see clientEntity.
type throttle struct {
	limiter   *dynalimit.RateLimiter
	opts      Options
	patience  time.Duration
	gates     *gates
	exhausted *lru.Cache[string, exhaustion]
}

// exhaustion is when a bucket was found exhausted, and until when it stays so.
type exhaustion struct{ seen, until time.Time }

// newThrottle makes the throttle of failed logins, with buckets in the table of o.Limiter that no configuration
// applies to. It sends no request.
func newThrottle(o Options) *throttle {
	exhausted, _ := lru.New[string, exhaustion](rememberedRefusals) // fails only for a size below 1
	limiter := bookkeeping.Limiter(o.Limiter).(*dynalimit.RateLimiter)
	return &throttle{limiter: limiter, opts: o, patience: patience, gates: newGates(), exhausted: exhausted}
}

// addressEntity returns the id of the entity that limits the failed logins of an address.
func addressEntity(from netip.Addr) string { return addressPrefix + networkOf(from) }

// networkOf returns the network that counts as one address, as text: an IPv6 host has a /64 for itself. It is
// "unknown" for an invalid address.
func networkOf(from netip.Addr) string {
	if !from.IsValid() {
		return "unknown"
	}
	return origin.HostAddress(from).String()
}

// clientEntity returns the id of the entity that limits the failed logins of a client at an address. There are
// 65,536 per address: enough to make collisions of clients rare, while a stranger with invented ids can create
// only so many items. The address is not hashed, so no id at another address collides.
func clientEntity(from netip.Addr, clientID string) string {
	sum := sha256.Sum256([]byte(clientID))
	return clientPrefix + hex.EncodeToString(sum[:2]) + ":" + networkOf(from)
}

// attempt is a pending login with its tokens.
type attempt struct {
	throttle *throttle
	patience <-chan struct{} // closed when the login has waited long enough
	taken    []taken
}

// taken is one token of a bucket.
type taken struct {
	lease *dynalimit.Lease
	leave func() // leaves the bucket's gate
}

// beginLogin takes a token of the address's bucket and one of the client's, before a login is checked, and
// waits for them until patience ends. An impossible client id takes only the address's. The caller ends the
// attempt with returnTokens or keepTokens; after an error, such as a *ThrottledError, no token is taken.
func (t *throttle) beginLogin(ctx context.Context, from netip.Addr, clientID string) (*attempt, error) {
	waiting, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	a := &attempt{throttle: t, patience: waiting.Done()}
	client := clientEntity(from, clientID)
	err := t.knownRefusal(client) // before taking anything, so repeated refusals cost nothing
	if err == nil {
		err = a.takeToken(ctx, addressEntity(from), t.opts.PerAddress)
	}
	if err == nil && isPossibleID(clientID) { // otherwise it fails without any check
		err = a.takeToken(ctx, client, t.opts.PerClient)
	}
	if err == nil {
		return a, nil
	}
	a.returnTokens(ctx)
	if errors.Is(err, errCrowded) {
		err = &ThrottledError{RetryAfter: time.Second}
	}
	return nil, err
}

// isPossibleID reports whether a text can be a client id.
func isPossibleID(clientID string) bool {
	_, _, ok := credentials.ParseClientID(clientID)
	return ok
}

// takeToken enters the gate of a bucket of perMinute failures a minute, takes one of its tokens, and adds it to
// a.taken. If the bucket is empty, it waits for pending logins that may return theirs. After an error nothing
// is taken.
func (a *attempt) takeToken(ctx context.Context, entity string, perMinute int64) error {
	t := a.throttle
	if err := t.knownRefusal(entity); err != nil {
		return err
	}
	leave, err := t.gates.enterGate(ctx, a.patience, entity, perMinute)
	if err != nil {
		return err
	}
	lease, err := a.acquireToken(ctx, entity, dynalimit.WithLimits(dynalimit.PerMinute(failures, perMinute), dynalimit.PerMinute(ended, perMinute)))
	if err != nil {
		leave()
		return err
	}
	a.taken = append(a.taken, taken{lease, leave})
	return nil
}

// acquireToken acquires one token of a bucket. After a denial it waits for a token and tries again. It returns
// a *ThrottledError if failures have exhausted the bucket, errCrowded when patience ends, or another error of
// the limiter.
func (a *attempt) acquireToken(ctx context.Context, entity string, limits dynalimit.AcquireOption) (*dynalimit.Lease, error) {
	for t := a.throttle; ; {
		if err := t.knownRefusal(entity); err != nil {
			return nil, err
		}
		lease, err := t.limiter.Acquire(ctx, entity, resource, one, limits)
		if !errors.Is(err, dynalimit.ErrLimitExceeded) {
			return lease, err
		}
		if err := a.awaitToken(ctx, entity, limits); err != nil {
			return nil, err
		}
	}
}

// knownRefusal returns a *ThrottledError if the entity's bucket is known to be exhausted, else nil. It ignores
// entries from before the clock was set back.
func (t *throttle) knownRefusal(entity string) error {
	e, _ := t.exhausted.Get(entity)
	if now := t.opts.Store.Now(); !now.Before(e.seen) && now.Before(e.until) {
		return &ThrottledError{RetryAfter: min(e.until.Sub(now), time.Minute)}
	}
	return nil
}

// awaitToken polls until a bucket has a token, because pending logins of other processes may return theirs. If
// ended logins have exhausted the bucket, it remembers for how long and returns a *ThrottledError. It returns
// errCrowded when patience ends, and errors of the limiter and of ctx.
func (a *attempt) awaitToken(ctx context.Context, entity string, limits dynalimit.AcquireOption) error {
	t := a.throttle
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		report, err := t.limiter.Check(ctx, entity, resource, both, limits)
		if err != nil {
			return err
		}
		if report.Allowed {
			return nil
		}
		for _, s := range report.Statuses {
			if s.Exceeded && s.Limit.Name == ended {
				now := t.opts.Store.Now()
				t.exhausted.Add(entity, exhaustion{now, now.Add(s.RetryAfter)})
				return &ThrottledError{RetryAfter: min(s.RetryAfter, time.Minute)}
			}
		}
		if err := pauseFor(ctx, a.patience, wait/2+rand.N(wait/2)); err != nil { //nolint:gosec // spreads the processes
			return err
		}
	}
}

// pauseFor waits for d and returns nil. It returns errCrowded if patience is closed before, and the cause of
// ctx's end.
func pauseFor(ctx context.Context, patience <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-patience:
		return errCrowded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keepTokens leaves the tokens of a failed login taken, marks it as ended for waiting logins, and leaves the
// buckets' gates. It logs a failed mark. A second call, or a call after returnTokens, does nothing.
func (a *attempt) keepTokens(ctx context.Context) {
	for _, t := range a.taken {
		if err := t.lease.Adjust(ctx, oneEnded); err != nil {
			a.throttle.opts.Logger.Warn("login: a failed login could not be marked as ended; other logins may wait for it", "error", err)
		}
		t.leave()
	}
	a.taken = nil
}

// returnTokens gives back the tokens of a login that has not failed, and leaves the buckets' gates. If that
// fails, it logs it, and the login counts as failed for a minute. A second call does nothing.
func (a *attempt) returnTokens(ctx context.Context) {
	for _, t := range a.taken {
		if err := t.lease.Rollback(ctx); err != nil {
			a.throttle.opts.Logger.Warn("login: a good login could not be taken off the failed ones; it counts for a minute", "error", err)
		}
		t.leave()
	}
	a.taken = nil
}
