package budgethttp

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/tokens"
)

// Claims are what a bearer token says of who sent a request.
type Claims = tokens.Claims

// Access is the Kind of Claims that authorise requests.
const Access = tokens.Access

// Options configure a Server.
type Options struct {
	// Authenticate says who sent a request to a route that needs an access token.
	// ErrUnauthorized, or an error that wraps it, is answered with 401, an
	// *budget.UnavailableError with 503, anything else with 500. New refuses nil.
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
	// Now is the clock of answers. Defaults to time.Now.
	Now func() time.Time
	// Random is where request ids come from. Defaults to crypto/rand.
	Random io.Reader
	// Logger gets one record for each request, without its query string, and what went
	// wrong inside. Defaults to discarding.
	Logger *slog.Logger
	// OnServed is told of every request when it is answered, on its goroutine. Defaults
	// to none.
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
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.BodyTimeout == 0 {
		out.BodyTimeout = 5 * time.Second
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
