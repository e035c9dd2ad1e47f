package budgetclient

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// Client is a client of one keeper. Make one per process with New, and Close it. It is safe for
// concurrent use and starts no goroutine.
type Client struct {
	*core
}

type core struct {
	opts    Options
	base    string // without a trailing slash
	http    *http.Client
	own     bool // the client owns http's connections
	session session
	choices choices
}

// New returns a Client. It sends no request: the first call logs in. It fails with a
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
	// Never follow a redirect, which would send the secret or a record to another host.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{c}, nil
}

// ownTransport returns a copy of the default transport that keeps up to 64 idle connections for a host, or the
// default one itself if it is of another type.
func ownTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}

// Close closes idle connections, unless they belong to Options.HTTPClient. It does not end
// calls.
func (c *Client) Close() {
	if c != nil && c.core != nil && c.own {
		c.http.CloseIdleConnections()
	}
}

// String returns the client id and the base URL, without the secret.
func (c *Client) String() string {
	if c == nil || c.core == nil {
		return "budgetclient: none"
	}
	return "budgetclient: " + c.opts.ClientID + " at " + c.base
}

// GoString returns String.
func (c *Client) GoString() string { return c.String() }

// checkUsable returns an error for a client that New did not make, and for a nil context.
func (c *Client) checkUsable(ctx context.Context) error {
	if c == nil || c.core == nil {
		return invalid("client", "was not made by New; make one with budgetclient.New(&budgetclient.Options{...})")
	}
	return problem.CheckContext(ctx, "budgetclient")
}

var (
	uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// targetPath returns the path of an app, or of the organisation if app is empty and appNeeded is false. It
// returns a *fault.ValidationError for any other id, because it could change the path.
func targetPath(org, app string, appNeeded bool) (string, error) {
	if !uuid.MatchString(org) {
		return "", invalid("org_id", "%q is not a canonical lower-case UUID", clipText(org))
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

// validName returns a *fault.ValidationError for field unless text is a name of 1 to 64 permitted
// characters.
func validName(field, text string) error {
	if !name.MatchString(text) {
		return invalid(field, "%q is not 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit", clipText(text))
	}
	return nil
}

// clipText returns a text cut to 64 bytes, for an error.
func clipText(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// appPath checks the client and the ids, and returns the API path of the app.
func (c *Client) appPath(ctx context.Context, org, app string) (string, error) {
	if err := c.checkUsable(ctx); err != nil {
		return "", err
	}
	return targetPath(org, app, true)
}
