package budgethttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/login"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
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

// secrets is the routes for clients' secrets.
type secrets struct {
	store *credentials.Store
	login *login.Service // nil with Options.Authenticate
}

// endpoints returns the routes, with handlers, for the secrets of an organisation or app. With a provisioning
// key they rotate a secret; with its retrieval token they fetch a new secret once, by POST or GET.
func (c secrets) endpoints() []endpoint {
	rotate := route{
		method: http.MethodPost, tag: "credentials", needs: provider, request: exampleRotate,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "The secret before it works for grace_hours more. Of two at once one is 409, and changed nothing. A client that was revoked gets a secret again.",
	}
	rotateOrg, rotateApp := rotate, rotate
	rotateOrg.id, rotateOrg.path, rotateOrg.summary = "rotateOrgSecret", orgRoute+"/credentials/rotate", "Give an organisation a new secret"
	rotateApp.id, rotateApp.path, rotateApp.summary = "rotateAppSecret", appRoute+"/credentials/rotate", "Give an app a new secret"
	fetch := route{
		method: http.MethodPost, tag: "credentials", needs: retriever, request: exampleRetrieve, errors: []int{http.StatusTooManyRequests},
		description: "Whoever has the token gets the secret; of several at once, one. 401: the token is unknown, of somebody else or too old, and nothing is consumed. 404: the secret was fetched before. Without a provisioning key such answers count as failed logins of the address: 429.",
	}
	fetchOrg, fetchApp := fetch, fetch
	fetchOrg.id, fetchOrg.path, fetchOrg.summary = "fetchOrgSecret", orgRoute+"/credentials/secret", "Fetch an organisation's new secret, once"
	fetchApp.id, fetchApp.path, fetchApp.summary = "fetchAppSecret", appRoute+"/credentials/secret", "Fetch an app's new secret, once"
	queryOrg, queryApp := fetchOrg, fetchApp
	for _, r := range []*route{&queryOrg, &queryApp} {
		r.id, r.method, r.headless, r.request = r.id+"ByQuery", http.MethodGet, true, nil
		r.description += " The token is in the query, which others may log: rather POST it."
	}
	return []endpoint{
		newEndpoint(rotateOrg, func(ctx context.Context, x *exchange, in *rotateInput) (*rotateOutput, error) {
			return c.rotateSecret(ctx, x, in.Org, "", in.Body)
		}),
		newEndpoint(rotateApp, func(ctx context.Context, x *exchange, in *appRotateInput) (*rotateOutput, error) {
			return c.rotateSecret(ctx, x, in.Org, in.App, in.Body)
		}),
		newEndpoint(fetchOrg, func(ctx context.Context, x *exchange, in *retrieveInput) (*secretOutput, error) {
			return c.retrieveSecret(ctx, x, in.Org, "", in.Body.Token)
		}),
		newEndpoint(fetchApp, func(ctx context.Context, x *exchange, in *appRetrieveInput) (*secretOutput, error) {
			return c.retrieveSecret(ctx, x, in.Org, in.App, in.Body.Token)
		}),
		newEndpoint(queryOrg, func(ctx context.Context, x *exchange, in *tokenQuery) (*secretOutput, error) {
			return c.retrieveSecret(ctx, x, in.Org, "", in.Token)
		}),
		newEndpoint(queryApp, func(ctx context.Context, x *exchange, in *appTokenQuery) (*secretOutput, error) {
			return c.retrieveSecret(ctx, x, in.Org, in.App, in.Token)
		}),
	}
}

// rotateSecret replaces a client's secret, with the request's principal as the author, and returns the
// retrieval token of the new one. The old secret works for GraceHours more. An empty app means the
// organisation.
func (c secrets) rotateSecret(ctx context.Context, x *exchange, org, app string, in wire.Rotate) (*rotateOutput, error) {
	r, err := c.store.As(x.principal).Rotate(ctx, org, app, in.GraceHours)
	if err != nil {
		return nil, err
	}
	return &rotateOutput{wire.NewRotation(r)}, nil
}

// retrieveSecret returns the client's secret for its retrieval token, once, and consumes the
// token. An empty app means the organisation. Without a provisioning key a failure counts as a
// failed login of the request's address.
func (c secrets) retrieveSecret(ctx context.Context, x *exchange, org, app, token string) (*secretOutput, error) {
	retrieve := c.store.Retrieve
	if x.principal == "" && c.login != nil { // with the retrieval token alone
		retrieve = func(ctx context.Context, org, app string, token credentials.Secret) (credentials.Credentials, error) {
			return c.login.Retrieve(ctx, x.from, org, app, token)
		}
	}
	fetched, err := retrieve(ctx, org, app, credentials.NewSecret(token))
	if err != nil {
		return nil, err
	}
	return &secretOutput{wire.Secret{ClientID: fetched.ClientID, Secret: fetched.Secret.Reveal()}}, nil
}

// authenticateByKey returns the default of Options.Administrator: a function that verifies the one provisioning
// key of a request and returns the principal, "key:" and the key's name. It returns ErrUnauthorized for a
// missing or invalid key, and errForbidden for a key of another organisation than the path's.
func authenticateByKey(store *credentials.Store) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		given := r.Header.Values("X-Api-Key")
		if len(given) != 1 || given[0] == "" || len(given[0]) > maxSecret {
			return "", ErrUnauthorized
		}
		key, err := store.VerifyKey(r.Context(), credentials.NewSecret(given[0]))
		switch {
		case errors.Is(err, credentials.ErrInvalidCredentials):
			return "", ErrUnauthorized
		case err == nil && key.Org != "" && key.Org != r.PathValue("org_id"):
			return "", errForbidden
		}
		return "key:" + key.Name, err
	}
}

const maxSecret = 128 // bytes of a secret or key
