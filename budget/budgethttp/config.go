package budgethttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/credentials"
)

type (
	orgInput struct {
		wire.OrgPath
		Body wire.Org
	}
	orgOutput struct {
		Status int
		Body   wire.StoredOrg
	}
	appInput struct {
		wire.AppPath
		Body wire.App
	}
	appOutput struct {
		Status int
		Body   wire.StoredApp
	}
)

func (s *Server) configRoutes() {
	put := route{
		method: http.MethodPut, tag: "administration", needs: provider, also: http.StatusCreated, invalid: wire.InvalidConfig,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "Creates it, with credentials whose secret retrieval_token fetches once (201), or replaces its configuration and leaves its credentials alone (200). Of several that create it at once, one is told the token.",
	}
	org, app := put, put
	org.id, org.path, org.summary, org.request = "putOrg", orgRoute, "Create or replace an organisation", exampleOrg
	app.id, app.path, app.summary, app.request = "putApp", appRoute, "Create or replace an app", exampleApp
	register(s, org, s.putOrg)
	register(s, app, s.putApp)

	get := route{method: http.MethodGet, tag: "administration", needs: provider, description: "As it was put, without its credentials."}
	org, app = get, get
	org.id, org.path, org.summary = "getOrg", orgRoute, "Show an organisation's configuration"
	app.id, app.path, app.summary = "getApp", appRoute, "Show an app's configuration"
	register(s, org, func(ctx context.Context, _ *exchange, in *wire.OrgPath) (*orgOutput, error) {
		o, err := s.keeper.Setup().GetOrg(ctx, in.Org)
		if err != nil {
			return nil, err
		}
		return &orgOutput{http.StatusOK, wire.NewOrg(o)}, nil
	})
	register(s, app, func(ctx context.Context, _ *exchange, in *wire.AppPath) (*appOutput, error) {
		a, err := s.keeper.Setup().GetApp(ctx, in.Org, in.App)
		if err != nil {
			return nil, err
		}
		return &appOutput{http.StatusOK, wire.NewApp(in.Org, a)}, nil
	})
}

// putOrg configures before it issues credentials: if the second fails, the same PUT again
// gets them.
func (s *Server) putOrg(ctx context.Context, x *exchange, in *orgInput) (*orgOutput, error) {
	stored, err := s.keeper.As(x.principal).Setup().PutOrg(ctx, in.Body.Budget(in.Org))
	if err != nil {
		return nil, err
	}
	issued, err := s.issue(ctx, x, in.Org, "", func(ctx context.Context) error { _, err := s.keeper.Setup().GetOrg(ctx, in.Org); return err })
	if err != nil {
		return nil, err
	}
	out := &orgOutput{put(issued.Created), wire.NewOrg(stored)}
	out.Body.Issued = wire.NewIssued(issued)
	return out, nil
}

func (s *Server) putApp(ctx context.Context, x *exchange, in *appInput) (*appOutput, error) {
	stored, err := s.keeper.As(x.principal).Setup().PutApp(ctx, in.Org, in.Body.Budget(in.App))
	if err != nil {
		return nil, err
	}
	issued, err := s.issue(ctx, x, in.Org, in.App, func(ctx context.Context) error { _, err := s.keeper.Setup().GetApp(ctx, in.Org, in.App); return err })
	if err != nil {
		return nil, err
	}
	out := &appOutput{put(issued.Created), wire.NewApp(in.Org, stored)}
	out.Body.Issued = wire.NewIssued(issued)
	return out, nil
}

// issue gives credentials to what was put. If somebody deleted that meanwhile, and ended
// credentials that were not there yet, these end too: else they would be good again for
// whoever puts the same id later.
func (s *Server) issue(ctx context.Context, x *exchange, org, app string, look func(context.Context) error) (credentials.Issued, error) {
	ctx = context.WithoutCancel(ctx) // what is begun here ends, though the caller hangs up
	store := s.store.As(x.principal)
	issued, err := store.Create(ctx, org, app)
	if err != nil || !issued.Created {
		return issued, err
	}
	if gone := look(ctx); errors.Is(gone, budget.ErrNotFound) {
		return credentials.Issued{}, cmp.Or(store.Delete(ctx, org, app), gone)
	}
	return issued, nil
}

func put(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}
