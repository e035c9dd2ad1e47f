package login

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget/credentials"
)

const (
	// resource is the limiter's resource, and failures the limit.
	resource = "login"
	failures = "failed_logins"

	addressPrefix = "login-address:"
	clientPrefix  = "login-client:"
	// nobody takes the place of a client that does not exist: a failure costs it the same
	// write, and it is never exceeded.
	nobody      = "login-nobody"
	nobodyLimit = 1_000_000_000
)

// closed refuses a login while failures cannot be counted, whatever the limiter does for
// others then.
var closed = dynalimit.WithOnUnavailable(dynalimit.Block)

// one is a failed login.
var one = dynalimit.Amounts{failures: 1}

// throttle bounds failed logins, in buckets of the limiter that all processes share. A
// login takes from its address before anything is looked at, and gives back if it does not
// fail: so the bound holds for logins at the same time. A client's failures are taken when
// it has failed, so that many may log in at once as one client.
//
// Nothing tells a client that exists from one that does not: both are asked about with the
// same requests, a failure of either is one write, and this process refuses both after as
// many failures. Only a client that exists gets a bucket of its own.
type throttle struct {
	limiter            *dynalimit.RateLimiter
	perAddress, nobody dynalimit.AcquireOption
	perClient          dynalimit.AcquireOption
	recent             *failed
	opts               Options
}

func newThrottle(o Options) *throttle {
	limit := func(n int64) dynalimit.AcquireOption { return dynalimit.WithLimits(dynalimit.PerMinute(failures, n)) }
	return &throttle{
		limiter: o.Limiter, opts: o, recent: newFailed(o.PerClient),
		perAddress: limit(o.PerAddress), perClient: limit(o.PerClient), nobody: limit(nobodyLimit),
	}
}

// addressOf is the entity of an address: a host of IPv6 has a /64 to itself.
func addressOf(from netip.Addr) string {
	from = from.Unmap().WithZone("")
	switch {
	case !from.IsValid():
		return addressPrefix + "unknown"
	case from.Is6():
		prefix, _ := from.Prefix(64) // 64 bits are there
		from = prefix.Addr()
	}
	return addressPrefix + from.String()
}

// attempt is a login that is being made.
type attempt struct {
	*throttle
	client string
	lease  *dynalimit.Lease // of the address
}

// begin lets a login be looked at. Errors: *ThrottledError, *dynalimit.UnavailableError.
func (t *throttle) begin(ctx context.Context, from netip.Addr, clientID string) (*attempt, error) {
	lease, err := t.limiter.Acquire(ctx, addressOf(from), resource, one, t.perAddress, closed)
	if err != nil {
		return nil, refusal(err)
	}
	a := &attempt{throttle: t, client: clientID, lease: lease}
	if err := a.checkClient(ctx); err != nil {
		a.undone(ctx)
		return nil, err
	}
	return a, nil
}

// checkClient refuses a client that failed too often. It reads, and writes nothing.
func (a *attempt) checkClient(ctx context.Context) error {
	if !possible(a.client) {
		return nil // it will fail without a look at anything
	}
	if wait := a.recent.wait(a.client, a.opts.Store.Now()); wait > 0 {
		return &ThrottledError{RetryAfter: wait}
	}
	report, err := a.limiter.Check(ctx, clientPrefix+a.client, resource, one, a.perClient, closed)
	switch {
	case err != nil:
		return refusal(err)
	case !report.Allowed:
		return &ThrottledError{RetryAfter: min(report.RetryAfter, time.Minute)}
	}
	return nil
}

// possible reports whether a text can be a client's id at all.
func possible(clientID string) bool {
	_, _, ok := credentials.ParseClientID(clientID)
	return ok
}

// failed counts a login that failed, here and for its client, if there is one.
func (a *attempt) failed(ctx context.Context, known bool) {
	if !possible(a.client) {
		return
	}
	a.recent.add(a.client, a.opts.Store.Now())
	entity, limit := nobody, a.nobody
	if known {
		entity, limit = clientPrefix+a.client, a.perClient
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // it has failed, also for whoever has left
	defer cancel()
	_, err := a.limiter.Acquire(ctx, entity, resource, one, limit)
	if err != nil && !errors.Is(err, dynalimit.ErrLimitExceeded) {
		a.opts.Logger.Warn("login: a failed login was not counted for its client", "error", err)
	}
}

// undone gives back what a login took that has not failed.
func (a *attempt) undone(ctx context.Context) {
	if err := a.lease.Rollback(ctx); err != nil {
		a.opts.Logger.Warn("login: a login that did not fail stays counted for its address, for a minute", "error", err)
	}
}

// refusal is a denial of the limiter as a login's; one without an end, such as a
// configuration that admits nothing, is asked about again in a minute.
func refusal(err error) error {
	if !errors.Is(err, dynalimit.ErrLimitExceeded) && !errors.As(err, new(*dynalimit.BlockedError)) {
		return err
	}
	wait, known := dynalimit.RetryAfter(err)
	if !known {
		wait = time.Minute
	}
	return &ThrottledError{RetryAfter: min(wait, time.Minute)}
}
