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
	// resource is the one of this project's own counters.
	resource = "login"
	// failures is the limit. A login takes one before its secret is looked at, and gives it
	// back if it does not fail.
	failures = "failed_logins"
	// ended is a limit of as many that a login takes when it has failed: where that is
	// exhausted nobody under way will give anything back.
	ended = "ended_logins"

	addressPrefix = "login-address:"
	clientPrefix  = "login-client:"

	// patience is how long a login waits in all for others that are under way.
	patience = 5 * time.Second
	// firstLook and lastLook are how often it looks whether those of other processes ended.
	firstLook, lastLook = 10 * time.Millisecond, 200 * time.Millisecond
	// rememberedRefusals bounds the buckets that this process knows to be exhausted.
	rememberedRefusals = 10_000
)

var (
	one      = dynalimit.Amounts{failures: 1}
	oneEnded = dynalimit.Amounts{ended: 1}
	both     = dynalimit.Amounts{failures: 1, ended: 1}
)

// throttle bounds failed logins, in buckets that all processes share. They are this project's
// own: no level or block of a user applies to them, and no usage has them. A login is refused
// while they cannot be counted. A login takes from its address, and then from its client at that
// address, before anything is looked at, and gives back if it does not fail: so the bounds hold for logins at the same
// time. One that finds a bucket exhausted by others that are under way waits for them,
// whatever process they are at; one that finds it exhausted by failures is refused.
//
// No bucket is of a client wherever it is: who knows its id could exhaust that, and keep
// the client out. Nothing tells a client that exists from one that does not: both take from
// a bucket that the id and the address alone choose, see clientOf.
type throttle struct {
	limiter   *dynalimit.RateLimiter
	opts      Options
	patience  time.Duration
	gates     *gates
	exhausted *lru.Cache[string, exhaustion]
}

// exhaustion is when a bucket was seen to be exhausted, and until when it is, whoever asks.
type exhaustion struct{ seen, until time.Time }

func newThrottle(o Options) *throttle {
	exhausted, _ := lru.New[string, exhaustion](rememberedRefusals) // fails only for a size below 1
	limiter := bookkeeping.Limiter(o.Limiter).(*dynalimit.RateLimiter)
	return &throttle{limiter: limiter, opts: o, patience: patience, gates: newGates(), exhausted: exhausted}
}

// addressOf is the entity of an address.
func addressOf(from netip.Addr) string { return addressPrefix + placeOf(from) }

// placeOf is what is taken for one address: a host of IPv6 has a /64 to itself.
func placeOf(from netip.Addr) string {
	if !from.IsValid() {
		return "unknown"
	}
	return origin.Host(from).String()
}

// clientOf is the entity of a client at an address, one of 65,536 there: enough that two
// clients hardly share one, and a bound for what a stranger can have written by making ids
// up. The address is in it as it is, so that nobody elsewhere finds an id that shares it.
func clientOf(from netip.Addr, clientID string) string {
	sum := sha256.Sum256([]byte(clientID))
	return clientPrefix + hex.EncodeToString(sum[:2]) + ":" + placeOf(from)
}

// attempt is a login that is being made: what it took.
type attempt struct {
	throttle *throttle
	patience <-chan struct{} // closed when it has waited long enough
	taken    []taken
}

// taken is one of a bucket.
type taken struct {
	lease *dynalimit.Lease
	leave func() // the bucket's gate
}

// begin lets a login be looked at. Errors: *ThrottledError, *dynalimit.UnavailableError.
func (t *throttle) begin(ctx context.Context, from netip.Addr, clientID string) (*attempt, error) {
	waiting, cancel := context.WithTimeout(context.Background(), t.patience)
	defer cancel()
	a := &attempt{throttle: t, patience: waiting.Done()}
	client := clientOf(from, clientID)
	err := t.refused(client) // before anything is taken: who is refused again and again costs nothing
	if err == nil {
		err = a.take(ctx, addressOf(from), t.opts.PerAddress)
	}
	if err == nil && possible(clientID) { // else it will fail without a look at anything
		err = a.take(ctx, client, t.opts.PerClient)
	}
	if err == nil {
		return a, nil
	}
	a.undone(ctx)
	if errors.Is(err, errCrowded) {
		err = &ThrottledError{RetryAfter: time.Second}
	}
	return nil, err
}

// possible reports whether a text can be a client's id at all.
func possible(clientID string) bool {
	_, _, ok := credentials.ParseClientID(clientID)
	return ok
}

// take takes one of a bucket, if it must after others that are under way have ended.
func (a *attempt) take(ctx context.Context, entity string, perMinute int64) error {
	t := a.throttle
	if err := t.refused(entity); err != nil {
		return err
	}
	leave, err := t.gates.enter(ctx, a.patience, entity, perMinute)
	if err != nil {
		return err
	}
	lease, err := a.acquire(ctx, entity, dynalimit.WithLimits(dynalimit.PerMinute(failures, perMinute), dynalimit.PerMinute(ended, perMinute)))
	if err != nil {
		leave()
		return err
	}
	a.taken = append(a.taken, taken{lease, leave})
	return nil
}

// acquire takes one of a bucket whose gate it has passed.
func (a *attempt) acquire(ctx context.Context, entity string, limits dynalimit.AcquireOption) (*dynalimit.Lease, error) {
	for t := a.throttle; ; {
		if err := t.refused(entity); err != nil {
			return nil, err
		}
		lease, err := t.limiter.Acquire(ctx, entity, resource, one, limits)
		if !errors.Is(err, dynalimit.ErrLimitExceeded) {
			return lease, err
		}
		if err := a.await(ctx, entity, limits); err != nil {
			return nil, err
		}
	}
}

// refused is the refusal by a bucket that is known to be exhausted. After the clock was set
// back nothing is known.
func (t *throttle) refused(entity string) error {
	e, _ := t.exhausted.Get(entity)
	if now := t.opts.Store.Now(); !now.Before(e.seen) && now.Before(e.until) {
		return &ThrottledError{RetryAfter: min(e.until.Sub(now), time.Minute)}
	}
	return nil
}

// await waits until a bucket has one, or until it is certain to have none for a while. It
// reads: others are at other processes, too.
func (a *attempt) await(ctx context.Context, entity string, limits dynalimit.AcquireOption) error {
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
		if err := pause(ctx, a.patience, wait/2+rand.N(wait/2)); err != nil { //nolint:gosec // it spreads processes
			return err
		}
	}
}

// pause waits for a while. Errors: errCrowded when patience ends, and the context's.
func pause(ctx context.Context, patience <-chan struct{}, d time.Duration) error {
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

// failed keeps what a login took that has failed, and tells those who wait that it has:
// also for whoever has left. After that, as after undone, there is nothing to keep.
func (a *attempt) failed(ctx context.Context) {
	for _, t := range a.taken {
		if err := t.lease.Adjust(ctx, oneEnded); err != nil {
			a.throttle.opts.Logger.Warn("login: others may wait for a login that has failed, as if it had not ended", "error", err)
		}
		t.leave()
	}
	a.taken = nil
}

// undone gives back what a login took that has not failed.
func (a *attempt) undone(ctx context.Context) {
	for _, t := range a.taken {
		if err := t.lease.Rollback(ctx); err != nil {
			a.throttle.opts.Logger.Warn("login: a login that did not fail stays counted, for a minute", "error", err)
		}
		t.leave()
	}
	a.taken = nil
}
