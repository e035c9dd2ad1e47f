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

// Claims identify the sender of a request.
type Claims struct {
	// ClientID is the client that the token was issued to, as in Served.Client.
	ClientID string
	// Org is the organisation's id.
	Org string
	// App is the app's id. It is empty for a token of the whole organisation.
	App string
	// Kind is the purpose of the token. Only Access authorises requests.
	Kind string
}

// Access is the Kind of Claims that authorise requests.
const Access = string(tokens.Access)

// Options configures a Server. All fields except Limiter are optional.
type Options struct {
	// Limiter belongs to the table and namespace in which all servers count failed logins. The
	// counters are internal: no configured limit, block or policy applies to them, and no usage
	// report contains them. Nil only where Authenticate is set.
	Limiter *dynalimit.RateLimiter
	// Issuer is the iss of tokens. Defaults to "dynalimit".
	Issuer string
	// Audience is the aud of tokens. Defaults to "budget".
	Audience string
	// AccessTTL is the life of access tokens. Defaults to 1 h.
	AccessTTL time.Duration
	// RefreshTTL is the life of refresh tokens. Together with AccessTTL it must not exceed the
	// store's LongestToken. Defaults to 7 days.
	RefreshTTL time.Duration
	// FailuresPerAddress is how many logins of an address may fail in a minute, over all
	// clients. Defaults to 100, because many clients may share an address.
	FailuresPerAddress int64
	// FailuresPerClient is how many logins of a client at one address may fail in a minute.
	// Defaults to 10.
	FailuresPerClient int64
	// Address returns the address of a request, for FailuresPerAddress. Behind a proxy it reads
	// the proxy's header. Defaults to the address of the connection.
	Address func(*http.Request) netip.Addr
	// Authenticate authenticates a request to a route that requires an access token. It
	// replaces the server's own tokens, and the server has no routes of authentication then.
	// ErrUnauthorized, or an error that wraps it, causes a 401, a *fault.UnavailableError a
	// 503, any other error a 500. Defaults to nil: the server issues tokens.
	Authenticate func(*http.Request) (Claims, error)
	// Administrator returns the principal of a request to a route that requires a provisioning
	// key. Its errors have the same effect as Authenticate's. Defaults to the provisioning keys
	// of the store; the principal is "key:" and the key's name.
	Administrator func(*http.Request) (principal string, err error)
	// Prefix is the path at which the handler is mounted, such as /budget. Leave it empty with
	// http.StripPrefix. Defaults to "".
	Prefix string
	// BodyTimeout is how long a client may take to send a body. A negative value means only the
	// server's own timeouts. Defaults to 5 s.
	BodyTimeout time.Duration
	// Now is the clock of responses. Tokens use the store's clock. Defaults to time.Now.
	Now func() time.Time
	// Random is the source of the ids of requests and tokens. Defaults to crypto/rand.
	Random io.Reader
	// Logger logs one record per request, without its query string, after the response is sent,
	// and internal errors. It runs on the request's goroutine and delays the next request of
	// the connection, so its handler must not block. Defaults to discarding.
	Logger *slog.Logger
	// OnServed is called for every request, on its goroutine, before the client has the
	// complete response. Defaults to nil.
	OnServed func(context.Context, Served)
}

// Served is a served request.
type Served struct {
	// Route is the operation's id, such as submitUsage. Empty for an unknown route.
	Route string
	// Method is the request's method.
	Method string
	// Status is the HTTP status of the response.
	Status int
	// Bytes is the length of the response's body.
	Bytes int64
	// Took is the duration of the request, by Options.Now.
	Took time.Duration
	// RequestID is the X-Request-Id of the response.
	RequestID string
	// Client is the sender of the request: a client id, or a provisioning key such as
	// key:operations. Empty if unknown.
	Client string
}

// withDefaults returns a copy of the options, which may be nil. It sets defaults for BodyTimeout, Issuer,
// Audience, Address, Now, Random and Logger, and leaves the other fields as they are.
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
		out.Address = peerAddress
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

// peerAddress returns the address of a connection's peer, or the zero address if it is unreadable.
func peerAddress(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // otherwise the zero address, which counts as one
	return from.Addr()
}
