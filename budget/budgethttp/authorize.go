package budgethttp

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/tokens"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

// ErrUnauthorized says that a request has no credential, one of the wrong kind, or one
// that is not in force.
var ErrUnauthorized = errors.New("budgethttp: unauthorized")

// errForbidden says that a credential is good, but not for this.
var errForbidden = errors.New("budgethttp: forbidden")

// need is the credential that a route wants.
type need int

const (
	nobody    need = iota // anybody may ask
	bearer                // an access token
	provider              // a provisioning key
	retriever             // a retrieval token, which the handler looks at; a key beside it has to be good
)

// tenantPath is whose a route is: an empty app is the organisation's own.
type tenantPath struct{ org, app string }

// authorize decides about every route that needs a token, before anything is read: so
// what belongs to others is refused alike, whether it exists or not. An organisation's
// token is good for all its apps.
func authorize(path tenantPath, c Claims) error {
	switch {
	case c.Kind != tokens.Access || c.Org == "":
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
func (s *Server) admit(r *http.Request, x *exchange, n need) error {
	switch n {
	case nobody:
		return nil
	case provider, retriever:
		if n == retriever && s.login != nil && len(r.Header.Values("X-Api-Key")) == 0 {
			return nil
		}
		principal, err := s.opts.Administrator(r)
		if err != nil {
			return fmt.Errorf("administrator: %w", err)
		}
		x.principal = principal
		return nil
	}
	claims, err := s.opts.Authenticate(r)
	if err != nil {
		return fmt.Errorf("authenticate: %w", err)
	}
	x.claims = claims
	return authorize(tenantPath{r.PathValue("org_id"), r.PathValue("app_id")}, claims)
}

// refusal is what a request is told that is not admitted; the same for every reason.
func (s *Server) refusal(err error, x *exchange, n need) *wire.Error {
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
	case errors.Is(err, budget.ErrUnavailable):
		return s.failure(err, x, wire.IdempotencyConflict)
	}
	return s.internal(err, x)
}
