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

// gate is what happens to a request before it is looked at: its credential, its query, then
// its body.
type gate struct {
	authenticate  func(*http.Request) (Claims, error)
	administrator func(*http.Request) (principal string, err error)
	// byToken says that a retrieval token is enough to fetch a secret: failures are counted.
	byToken     bool
	bodyTimeout time.Duration
	answers     *answers
}

// ErrUnauthorized says that a request has no credential, one of the wrong kind, or one
// that is not in force.
var ErrUnauthorized = errors.New("budgethttp: unauthorized")

// errForbidden says that a credential is good, but not for this.
var errForbidden = errors.New("budgethttp: forbidden")

// tenantPath is whose a route is: an empty app is the organisation's own.
type tenantPath struct{ org, app string }

// authorize decides about every route that needs a token, before anything is read: so
// what belongs to others is refused alike, whether it exists or not. An organisation's
// token is good for all its apps.
func authorize(path tenantPath, c Claims) error {
	switch {
	case c.Kind != Access || c.Org == "":
		return ErrUnauthorized
	case path.org == "":
		return nil // the route is nobody's
	case path.org != c.Org, c.App != "" && path.app != c.App:
		return errForbidden
	}
	return nil
}

// admit lets a request pass that has the credential its route needs, and notes whose it
// is.
func (g *gate) admit(r *http.Request, x *exchange, n need) error {
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

// refusal is what a request is told that is not admitted; the same for every reason.
func (g *gate) refusal(err error, x *exchange, n need) *wire.Error {
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
		return g.answers.failure(err, x, wire.IdempotencyConflict)
	}
	return g.answers.internal(err, x)
}

// guard is the gate of one route.
func (g *gate) guard(r route) func(huma.Context, func(huma.Context)) {
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
		if err := g.admit(req, x, r.needs); err != nil {
			g.answers.write(out, x, g.refusal(err, x, r.needs))
			return
		}
		if e := checkQuery(req.URL.RawQuery); e != nil && r.needs != nobody {
			g.answers.write(out, x, e)
			return
		}
		var body []byte
		if ctx.Operation().RequestBody != nil {
			var e *wire.Error
			if body, e = readBody(out, req, limit, g.bodyTimeout); e != nil {
				g.answers.write(out, x, e)
				return
			}
		}
		next(&guarded{request: ctx, body: body})
	}
}
