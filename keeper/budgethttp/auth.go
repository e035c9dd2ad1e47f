package budgethttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/login"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

type (
	loginInput   struct{ Body wire.Login }
	refreshInput struct{ Body wire.Refresh }
	revokeInput  struct{ Body wire.Revoke }
	grantOutput  struct{ Body wire.Granted }
)

// logins is the routes for tokens. It has none if Options.Authenticate is set.
type logins struct{ service *login.Service }

// endpoints returns the routes that issue, renew and revoke tokens. It returns nil if Options.Authenticate is
// set, because clients then get no tokens here.
func (l logins) endpoints() []endpoint {
	if l.service == nil {
		return nil
	}
	return []endpoint{
		newEndpoint(route{
			id: "login", method: http.MethodPost, path: "/auth/token", root: true, tag: "authentication",
			summary: "Log in", errors: []int{http.StatusUnauthorized, http.StatusTooManyRequests}, request: exampleLogin, response: exampleGranted,
			description: "An access token and a refresh token for a client's id and secret. After ten failures of a client at an address in a minute, or a hundred of the address, the next from there is 429 and not looked at.",
		}, func(ctx context.Context, x *exchange, in *loginInput) (*grantOutput, error) {
			return grantResponse(l.service.Token(ctx, x.from, in.Body.ClientID, credentials.NewSecret(in.Body.Secret)))
		}),
		newEndpoint(route{
			id: "refresh", method: http.MethodPost, path: "/auth/refresh", root: true, tag: "authentication",
			summary: "Get a new access token", errors: []int{http.StatusUnauthorized}, request: exampleRefresh,
			description: "Of the login that the refresh token is from; its client must still have its credentials.",
		}, func(ctx context.Context, _ *exchange, in *refreshInput) (*grantOutput, error) {
			return grantResponse(l.service.Refresh(ctx, credentials.NewSecret(in.Body.Token)))
		}),
		newEndpoint(route{
			id: "revoke", method: http.MethodPost, path: "/auth/revoke", root: true, tag: "authentication", needs: bearer,
			summary: "End a token", status: http.StatusNoContent, request: exampleRevoke,
			description: "One of the same client. It ends here at once, and on other servers within 30 seconds. One that is unknown or has expired is fine.",
		}, func(ctx context.Context, x *exchange, in *revokeInput) (*struct{}, error) {
			return nil, l.service.Revoke(ctx, x.claims.ClientID, credentials.NewSecret(in.Body.Token))
		}),
	}
}

// grantResponse returns the response with the tokens of g, in plain text, and their lives in whole seconds. If
// err is set, it returns err unchanged.
func grantResponse(g login.Grant, err error) (*grantOutput, error) {
	if err != nil {
		return nil, err
	}
	return &grantOutput{wire.Granted{
		AccessToken: g.Access.Reveal(), TokenType: "Bearer", ExpiresIn: int64(g.ExpiresIn / time.Second),
		RefreshToken: g.Refresh.Reveal(), RefreshExpiresIn: int64(g.RefreshExpiresIn / time.Second),
		Scope: g.Claims.Scope(), Org: g.Claims.Org, App: g.Claims.App,
	}}, nil
}

// authenticateByToken returns the default of Options.Authenticate: a function that verifies the bearer token of
// a request and returns its claims. It returns ErrUnauthorized unless the request has exactly one Authorization
// header, with a valid bearer token. It passes other errors of the check on.
func authenticateByToken(service *login.Service) func(*http.Request) (Claims, error) {
	return func(r *http.Request) (Claims, error) {
		values := r.Header.Values("Authorization")
		if len(values) != 1 {
			return Claims{}, ErrUnauthorized
		}
		scheme, token, _ := strings.Cut(values[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return Claims{}, ErrUnauthorized
		}
		claims, err := service.Authenticate(r.Context(), credentials.NewSecret(token))
		if errors.Is(err, login.ErrUnauthorized) {
			err = ErrUnauthorized
		}
		return Claims{ClientID: claims.ClientID, Org: claims.Org, App: claims.App, Kind: string(claims.Kind)}, err
	}
}
