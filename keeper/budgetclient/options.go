package budgetclient

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// Options configures a Client. BaseURL, ClientID and Secret are required.
type Options struct {
	// BaseURL is the keeper's address with its path, such as https://keeper.example.com/budget.
	// It must be https, or http to a loopback address. New refuses an empty one.
	BaseURL string
	// ClientID is the client id of the organisation's or app's credentials. New refuses an
	// empty one.
	ClientID string
	// Secret is the secret of ClientID. The client sends it only to log in. New refuses an
	// empty one.
	Secret credentials.Secret
	// HTTPClient makes the requests. The client never follows redirects. Defaults to an own
	// client with the proxy of the environment.
	HTTPClient *http.Client
	// Now is the clock for the expiry of tokens and recommendations. Defaults to time.Now.
	Now func() time.Time
	// Logger logs failed tries and logins, without secrets and tokens. Defaults to discarding.
	Logger *slog.Logger
	// Timeout bounds one try of a request, 10 ms to 10 min. ctx bounds all tries together.
	// Defaults to 5 s.
	Timeout time.Duration
	// Retries is the number of retries of a request without a response, 0 to 10. A negative
	// value turns them off. Defaults to 3.
	Retries int
	// OnUnavailable decides about Recommend while the keeper does not answer, as for a
	// budget.Keeper. Recommend defaults to Allow: the last answer, marked Stale. The client has
	// no spool, so Submit cannot be Allow.
	OnUnavailable budget.OnUnavailable
}

// The bounds of options.
const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = 10 * time.Minute
	maxRetries = 10
)

// withDefaults returns a copy of the options with defaults for zero fields, and the error of validate. Negative
// Retries become 0. A nil o counts as empty options, which validate refuses.
func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Timeout == 0 {
		out.Timeout = 5 * time.Second
	}
	switch {
	case out.Retries == 0:
		out.Retries = 3
	case out.Retries < 0:
		out.Retries = 0
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out, out.validate()
}

// validate returns a *fault.ValidationError for the first wrong option, or nil. The defaults must be set. It
// refuses Submit set to Allow, because a client has no spool.
func (o Options) validate() error {
	switch {
	case o.ClientID == "":
		return invalid("options.ClientID", "is empty; give the id that came with the credentials")
	case o.Secret.Empty():
		return invalid("options.Secret", "is empty; give the secret of the client id")
	case o.Timeout < minTimeout || o.Timeout > maxTimeout:
		return invalid("options.Timeout", "is %v; give %v to %v, or 0 for the default", o.Timeout, minTimeout, maxTimeout)
	case o.Retries > maxRetries:
		return invalid("options.Retries", "is %d; give at most %d", o.Retries, maxRetries)
	case o.OnUnavailable.Submit == budget.Allow:
		return invalid("options.OnUnavailable.Submit", "is allow, and a client has no spool to keep records in; leave it out")
	}
	return validURL(o.BaseURL)
}

// validURL returns nil for an https URL with a host, or an http one of a loopback host, without user, query and
// fragment. Else it returns a *fault.ValidationError, which never contains the text.
func validURL(text string) error {
	u, err := url.Parse(text)
	if err != nil { // the error's text may contain a password
		return invalid("options.BaseURL", "is no URL; give one like https://keeper.example.com")
	}
	switch {
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return invalid("options.BaseURL", "is http, and a secret would be sent in the clear; give https, or a loopback address")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "":
		return invalid("options.BaseURL", "is no https URL with a host; give one like https://keeper.example.com")
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return invalid("options.BaseURL", "has a user, query or fragment; give the host and path alone")
	}
	return nil
}

// isLoopback reports whether a host is localhost or a loopback address.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// invalid returns a *fault.ValidationError of the client itself, before it sends a request.
func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: "budgetclient", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}
