package budgetclient

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// Client is a client of one keeper. Make one with New for each process, and Close it. It
// is safe for concurrent use and starts no goroutine.
type Client struct {
	*core
}

type core struct {
	opts    Options
	base    string // without a slash at its end
	http    *http.Client
	own     bool // http's connections are the client's
	session session
	choices choices
}

// New makes a Client; it makes no request: the first call logs in. It fails with a
// *fault.ValidationError.
func New(options *Options) (*Client, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &core{opts: o, base: strings.TrimRight(o.BaseURL, "/"), own: o.HTTPClient == nil}
	c.http = &http.Client{}
	if c.own {
		c.http.Transport = ownTransport()
	} else {
		*c.http = *o.HTTPClient
	}
	// A redirect would send the secret, or a record, to who knows where.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{c}, nil
}

// ownTransport is the default one with room for the connections of a busy service.
func ownTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}

// Close closes the connections that are idle, unless they are of Options.HTTPClient. It
// ends no call.
func (c *Client) Close() {
	if c != nil && c.core != nil && c.own {
		c.http.CloseIdleConnections()
	}
}

// String names the client without its secret.
func (c *Client) String() string {
	if c == nil || c.core == nil {
		return "budgetclient: none"
	}
	return "budgetclient: " + c.opts.ClientID + " at " + c.base
}

// GoString is String.
func (c *Client) GoString() string { return c.String() }

// usable refuses calls of a client that New did not make, and without a context.
func (c *Client) usable(ctx context.Context) error {
	if c == nil || c.core == nil {
		return invalid("client", "was not made by New; make one with budgetclient.New(&budgetclient.Options{...})")
	}
	return problem.NoContext(ctx, "budgetclient")
}

var (
	uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// target is the path of an app, or with an empty one of the organisation. What could lead
// elsewhere is refused.
func target(org, app string, appNeeded bool) (string, error) {
	if !uuid.MatchString(org) {
		return "", invalid("org_id", "%q is not a canonical lower-case UUID", clipped(org))
	}
	path := "/orgs/" + org
	if app == "" && !appNeeded {
		return path, nil
	}
	if err := validName("app_id", app); err != nil {
		return "", err
	}
	return path + "/apps/" + url.PathEscape(app), nil
}

func validName(field, text string) error {
	if !name.MatchString(text) {
		return invalid(field, "%q is not 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit", clipped(text))
	}
	return nil
}

// clipped keeps an error short.
func clipped(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// admitted is the path of an app, for a call that may be made.
func (c *Client) admitted(ctx context.Context, org, app string) (string, error) {
	if err := c.usable(ctx); err != nil {
		return "", err
	}
	return target(org, app, true)
}
