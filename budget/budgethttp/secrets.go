package budgethttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/credentials"
)

type (
	rotateInput struct {
		wire.OrgPath
		Body wire.Rotate
	}
	appRotateInput struct {
		wire.AppPath
		Body wire.Rotate
	}
	rotateOutput  struct{ Body wire.Rotation }
	retrieveInput struct {
		wire.OrgPath
		Body wire.Retrieve
	}
	appRetrieveInput struct {
		wire.AppPath
		Body wire.Retrieve
	}
	tokenQuery struct {
		wire.OrgPath
		wire.TokenQuery
	}
	appTokenQuery struct {
		wire.AppPath
		wire.TokenQuery
	}
	secretOutput struct{ Body wire.Secret }
)

func (s *Server) credentialRoutes() {
	rotate := route{
		method: http.MethodPost, tag: "credentials", needs: provider, request: exampleRotate,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "The secret before it works for grace_hours more. Of two at once one is 409, and changed nothing. A client that was revoked gets a secret again.",
	}
	org, app := rotate, rotate
	org.id, org.path, org.summary = "rotateOrgSecret", orgRoute+"/credentials/rotate", "Give an organisation a new secret"
	app.id, app.path, app.summary = "rotateAppSecret", appRoute+"/credentials/rotate", "Give an app a new secret"
	register(s, org, func(ctx context.Context, x *exchange, in *rotateInput) (*rotateOutput, error) {
		return s.rotate(ctx, x, in.Org, "", in.Body)
	})
	register(s, app, func(ctx context.Context, x *exchange, in *appRotateInput) (*rotateOutput, error) {
		return s.rotate(ctx, x, in.Org, in.App, in.Body)
	})

	fetch := route{
		method: http.MethodPost, tag: "credentials", needs: retriever, request: exampleRetrieve, errors: []int{http.StatusTooManyRequests},
		description: "Whoever has the token gets the secret; of several at once, one. 401: the token is unknown, of somebody else or too old, and nothing is consumed. 404: the secret was fetched before. Without a provisioning key such answers count as failed logins of the address: 429.",
	}
	org, app = fetch, fetch
	org.id, org.path, org.summary = "fetchOrgSecret", orgRoute+"/credentials/secret", "Fetch an organisation's new secret, once"
	app.id, app.path, app.summary = "fetchAppSecret", appRoute+"/credentials/secret", "Fetch an app's new secret, once"
	register(s, org, func(ctx context.Context, x *exchange, in *retrieveInput) (*secretOutput, error) {
		return s.retrieve(ctx, x, in.Org, "", in.Body.Token)
	})
	register(s, app, func(ctx context.Context, x *exchange, in *appRetrieveInput) (*secretOutput, error) {
		return s.retrieve(ctx, x, in.Org, in.App, in.Body.Token)
	})
	for _, r := range []*route{&org, &app} {
		r.id, r.method, r.headless, r.request = r.id+"ByQuery", http.MethodGet, true, nil
		r.description += " The token is in the query, which others may log: rather POST it."
	}
	register(s, org, func(ctx context.Context, x *exchange, in *tokenQuery) (*secretOutput, error) {
		return s.retrieve(ctx, x, in.Org, "", in.Token)
	})
	register(s, app, func(ctx context.Context, x *exchange, in *appTokenQuery) (*secretOutput, error) {
		return s.retrieve(ctx, x, in.Org, in.App, in.Token)
	})
}

func (s *Server) rotate(ctx context.Context, x *exchange, org, app string, in wire.Rotate) (*rotateOutput, error) {
	r, err := s.store.As(x.principal).Rotate(ctx, org, app, in.GraceHours)
	if err != nil {
		return nil, err
	}
	return &rotateOutput{wire.NewRotation(r)}, nil
}

func (s *Server) retrieve(ctx context.Context, x *exchange, org, app, token string) (*secretOutput, error) {
	retrieve := s.store.Retrieve
	if x.principal == "" && s.login != nil { // by the token alone
		retrieve = func(ctx context.Context, org, app string, token credentials.Secret) (credentials.Credentials, error) {
			return s.login.Retrieve(ctx, x.from, org, app, token)
		}
	}
	c, err := retrieve(ctx, org, app, credentials.NewSecret(token))
	if err != nil {
		return nil, err
	}
	return &secretOutput{wire.Secret{ClientID: c.ClientID, Secret: c.Secret.Reveal()}}, nil
}

// holder is in whose name the holder of the one provisioning key of a request makes changes.
// A key of one organisation is good for what is below its path alone.
func (s *Server) holder(r *http.Request) (string, error) {
	given := r.Header.Values("X-Api-Key")
	if len(given) != 1 || given[0] == "" || len(given[0]) > maxSecret {
		return "", ErrUnauthorized
	}
	key, err := s.store.VerifyKey(r.Context(), credentials.NewSecret(given[0]))
	switch {
	case errors.Is(err, credentials.ErrInvalidCredentials):
		return "", ErrUnauthorized
	case err == nil && key.Org != "" && key.Org != r.PathValue("org_id"):
		return "", errForbidden
	}
	return "key:" + key.Name, err
}

const maxSecret = 128 // bytes of a secret or key

// ofCredentials is what an error of package credentials is answered with; nil if it is none.
func ofCredentials(err error) *wire.Error {
	switch {
	case errors.Is(err, credentials.ErrTokenInvalid):
		return wire.NewError(http.StatusUnauthorized, wire.Unauthorized, "the retrieval token is unknown, of somebody else or too old; nothing was consumed")
	case errors.Is(err, credentials.ErrTokenUsed):
		return wire.NewError(http.StatusNotFound, wire.NotFound, "the secret was fetched before: rotate for another")
	case errors.Is(err, credentials.ErrNotFound):
		return wire.NewError(http.StatusNotFound, wire.NotFound, "there are no such credentials")
	case errors.Is(err, credentials.ErrConflict):
		return wire.NewError(http.StatusConflict, wire.ConcurrentModification, "the credentials were changed by somebody else at the same time: nothing was written")
	}
	return nil
}
