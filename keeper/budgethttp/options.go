package budgethttp

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/tokens"
)

// Claims are what a bearer token says of who sent a request.
type Claims struct {
	// ClientID is whose credentials the token was issued for, as Served.Client has it.
	ClientID string
	// Org is the organisation's id.
	Org string
	// App is the app's id; empty for a token of the whole organisation.
	App string
	// Kind is what the token is good for: Access, or nothing is authorised.
	Kind string
}

// Access is the Kind of Claims that authorise requests.
const Access = string(tokens.Access)

// Options configure a Server. All are optional but Limiter.
type Options struct {
	// Limiter is of the table and namespace in which all servers count failed logins, beside
	// what users configure: no limit, block or policy of theirs applies, and no usage has
	// them. Defaults to nil, which New refuses unless Authenticate is set.
	Limiter *dynalimit.RateLimiter
	// Issuer is what tokens say of who issued them, iss. Defaults to "dynalimit".
	Issuer string
	// Audience is what tokens say of whom they are for, aud. Defaults to "budget".
	Audience string
	// AccessTTL is how long an access token is good. Defaults to 1 h.
	AccessTTL time.Duration
	// RefreshTTL is how long a refresh token is good; together with AccessTTL at most the
	// store's LongestToken. Defaults to 7 days.
	RefreshTTL time.Duration
	// FailuresPerAddress is how many logins of an address may fail in a minute, whoever
	// they are as. Defaults to 100: many clients may share an address.
	FailuresPerAddress int64
	// FailuresPerClient is how many logins of a client may fail in a minute at an address.
	// Defaults to 10.
	FailuresPerClient int64
	// Address is where a request is from, for FailuresPerAddress: behind a proxy, what the
	// proxy says. Defaults to the address of the connection.
	Address func(*http.Request) netip.Addr
	// Authenticate says who sent a request to a route that needs an access token, in the
	// place of the tokens that the server issues: there are no routes of authentication
	// then. ErrUnauthorized, or an error that wraps it, is answered with 401, an
	// *fault.UnavailableError with 503, anything else with 500. Defaults to nil: the
	// server issues tokens.
	Authenticate func(*http.Request) (Claims, error)
	// Administrator says in whose name a request to a route that needs a provisioning
	// key makes changes; it fails as Authenticate does. Defaults to the provisioning keys
	// of the store, as key: and their name.
	Administrator func(*http.Request) (principal string, err error)
	// Prefix is the path that the handler is mounted at, such as /budget. Defaults to
	// none; with http.StripPrefix leave it empty.
	Prefix string
	// BodyTimeout is how long a client may take to send a body. Below zero: the server's
	// own timeouts alone. Defaults to 5 s.
	BodyTimeout time.Duration
	// Now is the clock of answers; tokens go by the store's. Defaults to time.Now.
	Now func() time.Time
	// Random is where the ids of requests and tokens come from. Defaults to crypto/rand.
	Random io.Reader
	// Logger gets one record for each request, without its query string, when the answer is
	// on its way, and what went wrong inside. It gets them on the request's goroutine, which
	// the next request of the connection waits for: so its handler must not wait for whoever
	// reads the log. Defaults to discarding.
	Logger *slog.Logger
	// OnServed is told of every request, on its goroutine, before the client has all of the
	// answer. Defaults to none.
	OnServed func(context.Context, Served)
}

// Served is a request that was answered.
type Served struct {
	// Route is the operation's id, such as submitUsage; empty if there is no such route.
	Route string
	// Method is the request's method.
	Method string
	// Status is the answer's status.
	Status int
	// Bytes is the length of the answer's body.
	Bytes int64
	// Took is how long it took, by Options.Now.
	Took time.Duration
	// RequestID is the id that the answer has in X-Request-Id.
	RequestID string
	// Client is who sent the request: a client's id, or who holds a provisioning key, such
	// as key:operations. Empty: that is not known, or was not asked.
	Client string
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.BodyTimeout == 0 {
		out.BodyTimeout = 5 * time.Second
	}
	out.Issuer, out.Audience = cmp.Or(out.Issuer, "dynalimit"), cmp.Or(out.Audience, "budget")
	if out.Address == nil {
		out.Address = peer
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.Random == nil {
		out.Random = rand.Reader
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// peer is the address that a request is from, as far as TCP knows.
func peer(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // else nobody's, which is one address
	return from.Addr()
}
