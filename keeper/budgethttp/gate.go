package budgethttp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// gate checks a request before the handler: its credential, its query, then its body.
type gate struct {
	authenticate  func(*http.Request) (Claims, error)
	administrator func(*http.Request) (principal string, err error)
	// byToken is true if a retrieval token alone is enough to fetch a secret: failures are
	// counted.
	byToken     bool
	bodyTimeout time.Duration
	answers     *answers
}

// ErrUnauthorized means that a request has no credential, one of the wrong kind, or an invalid
// one.
var ErrUnauthorized = errors.New("budgethttp: unauthorized")

// errForbidden means that a valid credential does not permit the request.
var errForbidden = errors.New("budgethttp: forbidden")

// tenantPath identifies the organisation and app of a route. An empty app means the
// organisation itself.
type tenantPath struct{ org, app string }

// authorize compares the verified claims of a token with the path's organisation and app. It returns
// ErrUnauthorized unless the token is an organisation's or app's access token, errForbidden for another tenant,
// and nil for a route without a tenant. An organisation's token is valid for all its apps; an app's is not for
// the organisation's own routes.
func authorize(path tenantPath, c Claims) error {
	switch {
	case c.Kind != Access || c.Org == "":
		return ErrUnauthorized
	case path.org == "":
		return nil // the route belongs to no tenant
	case path.org != c.Org, c.App != "" && path.app != c.App:
		return errForbidden
	}
	return nil
}

// admitRequest checks the credential that a route needs, and sets the principal or the claims of x. A route for
// nobody passes unchecked, and with byToken also a fetch of a secret without a key. It returns an error that
// matches ErrUnauthorized or errForbidden, or the error of the check.
func (g *gate) admitRequest(r *http.Request, x *exchange, n need) error {
	switch n {
	case nobody:
		return nil
	case provider, retriever:
		if n == retriever && g.byToken && len(r.Header.Values("X-Api-Key")) == 0 {
			return nil
		}
		principal, err := g.administrator(r)
		if err != nil {
			return fmt.Errorf("administrator: %w", err)
		}
		x.principal = principal
		return nil
	}
	claims, err := g.authenticate(r)
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	x.claims = claims
	return authorize(tenantPath{r.PathValue("org_id"), r.PathValue("app_id")}, claims)
}

// refusalResponse returns the response to a request that was not admitted: 401, 403, 503 or 500. It does not
// reveal why a credential was refused, and logs the cause of a 503 or 500.
func (g *gate) refusalResponse(err error, x *exchange, n need) *wire.Error {
	switch {
	case errors.Is(err, errForbidden) && n != bearer:
		return wire.NewError(http.StatusForbidden, wire.Forbidden, "the key is of another organisation")
	case errors.Is(err, errForbidden):
		return wire.NewError(http.StatusForbidden, wire.Forbidden, "the token is of another organisation or app")
	case errors.Is(err, ErrUnauthorized) && n != bearer:
		return wire.NewError(http.StatusUnauthorized, wire.Unauthorized, "this needs a provisioning key in the header X-API-Key").
			With("WWW-Authenticate", `ApiKey realm="keeper"`)
	case errors.Is(err, ErrUnauthorized):
		return wire.NewError(http.StatusUnauthorized, wire.Unauthorized, "this needs an access token that is in force, as Authorization: Bearer").
			With("WWW-Authenticate", `Bearer realm="keeper"`)
	case errors.Is(err, fault.ErrUnavailable):
		return g.answers.errorResponse(err, x, wire.IdempotencyConflict)
	}
	return g.answers.internalError(err, x)
}

// middleware returns the checks in front of a route's handler. They check the credential and, unless the route
// is for nobody, the query; then they read a body up to the route's size within bodyTimeout. A refused request
// gets its response here and never reaches next.
func (g *gate) middleware(r route) func(huma.Context, func(huma.Context)) {
	limit := r.limit
	if limit == 0 {
		limit = maxBody
	}
	return func(ctx huma.Context, next func(huma.Context)) {
		req, w := humago.Unwrap(ctx)
		out, ok := w.(*answer)
		if !ok {
			panic(errors.New("budgethttp: the answer is not ours"))
		}
		x := exchangeOf(req.Context())
		if err := g.admitRequest(req, x, r.needs); err != nil {
			g.answers.writeError(out, x, g.refusalResponse(err, x, r.needs))
			return
		}
		if e := checkQuery(req.URL.RawQuery); e != nil && r.needs != nobody {
			g.answers.writeError(out, x, e)
			return
		}
		var body []byte
		if ctx.Operation().RequestBody != nil {
			var e *wire.Error
			if body, e = readBody(out, req, limit, g.bodyTimeout); e != nil {
				g.answers.writeError(out, x, e)
				return
			}
		}
		next(&guarded{request: ctx, body: body})
	}
}
