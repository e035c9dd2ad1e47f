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

// ownTransport returns a copy of http.DefaultTransport with up to 64 idle connections per host. If a program
// has replaced the default by another type, it returns that one, uncopied.
func ownTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}

// Close closes idle connections, unless they belong to Options.HTTPClient. It does not end calls in flight, and
// further calls still work.
func (c *Client) Close() {
	if c != nil && c.core != nil && c.own {
		c.http.CloseIdleConnections()
	}
}

// String returns a text for logs with the client id and the base URL, without the secret. A client that New did
// not make gives "budgetclient: none".
func (c *Client) String() string {
	if c == nil || c.core == nil {
		return "budgetclient: none"
	}
	return "budgetclient: " + c.opts.ClientID + " at " + c.base
}

// GoString returns String, so that the verb %#v does not print the secret.
func (c *Client) GoString() string { return c.String() }

// checkUsable returns a *fault.ValidationError if New did not make c or if ctx is nil, else nil. It sends
// nothing.
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

// targetPath returns the path of an app below the API's root, escaped, or of the organisation if app is empty
// and appNeeded is false. A bad id is a *fault.ValidationError.
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

// clipText returns text, for an error. A text above 64 bytes is cut there, without a broken character, and ends
// with an ellipsis.
func clipText(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// appPath returns the path of an app below the API's root. It returns a *fault.ValidationError for an unusable
// client, a nil ctx, and a bad id. It sends nothing.
func (c *Client) appPath(ctx context.Context, org, app string) (string, error) {
	if err := c.checkUsable(ctx); err != nil {
		return "", err
	}
	return targetPath(org, app, true)
}
