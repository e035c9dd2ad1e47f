package budgethttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/prices"
)

type (
	orgInput struct {
		wire.OrgPath
		wire.IfMatch
		Body wire.Org
	}
	orgOutput struct {
		Status int
		ETag   string `header:"ETag" doc:"The version, for If-Match"`
		Body   wire.StoredOrg
	}
	appInput struct {
		wire.AppPath
		wire.IfMatch
		Body wire.App
	}
	appOutput struct {
		Status int
		ETag   string `header:"ETag" doc:"The version, for If-Match"`
		Body   wire.StoredApp
	}
	adjustmentInput struct {
		wire.AppPath
		Body wire.Adjustment
	}
	adjustmentOutput struct {
		Replay string `header:"Idempotent-Replay" doc:"true: it had been applied before"`
		Body   wire.Adjusted
	}
	overrideInput struct {
		wire.AppPath
		Body wire.Override
	}
	overrideOutput struct{ Body wire.Override }
	pricesOutput   struct{ Body wire.Prices }
)

// administration is the routes for holders of a provisioning key.
type administration struct {
	keeper *budget.Keeper
	store  *credentials.Store
}

// endpoints returns the routes, with handlers, of organisations, apps, adjustments, overrides and prices. All
// need a provisioning key. It registers none of them.
func (a administration) endpoints() []endpoint {
	put := route{
		method: http.MethodPut, tag: "administration", needs: provider, also: http.StatusCreated, invalid: wire.InvalidConfig,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "Creates it, with credentials whose secret retrieval_token fetches once (201), or replaces its configuration and leaves its credentials alone (200). Of several that create it at once, one is told the token. With If-Match, or version in the body, only that version is replaced, and with If-None-Match: * none: else 409, and nothing was written.",
	}
	putOrg, putApp := put, put
	putOrg.id, putOrg.path, putOrg.summary, putOrg.request = "putOrg", orgRoute, "Create or replace an organisation", exampleOrg
	putApp.id, putApp.path, putApp.summary, putApp.request = "putApp", appRoute, "Create or replace an app", exampleApp
	get := route{method: http.MethodGet, tag: "administration", needs: provider, description: "As it was put, without its credentials."}
	getOrg, getApp := get, get
	getOrg.id, getOrg.path, getOrg.summary = "getOrg", orgRoute, "Show an organisation's configuration"
	getApp.id, getApp.path, getApp.summary = "getApp", appRoute, "Show an app's configuration"
	end := route{
		method: http.MethodDelete, tag: "administration", needs: provider, status: http.StatusNoContent,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "Nothing is admitted or counted any more, and credentials and tokens end. What was counted is kept until its time ends. After 503 send the same again.",
	}
	deleteOrg, deleteApp := end, end
	deleteOrg.id, deleteOrg.path, deleteOrg.summary = "deleteOrg", orgRoute, "Delete an organisation with its apps"
	deleteApp.id, deleteApp.path, deleteApp.summary = "deleteApp", appRoute, "Delete an app"
	return []endpoint{
		newEndpoint(putOrg, a.putOrg),
		newEndpoint(putApp, a.putApp),
		newEndpoint(getOrg, func(ctx context.Context, _ *exchange, in *wire.OrgPath) (*orgOutput, error) {
			o, err := a.keeper.Setup().GetOrg(ctx, in.Org)
			if err != nil {
				return nil, err
			}
			return &orgOutput{http.StatusOK, wire.ETag(o.Version), wire.NewOrg(o)}, nil
		}),
		newEndpoint(getApp, func(ctx context.Context, _ *exchange, in *wire.AppPath) (*appOutput, error) {
			stored, err := a.keeper.Setup().GetApp(ctx, in.Org, in.App)
			if err != nil {
				return nil, err
			}
			return &appOutput{http.StatusOK, wire.ETag(stored.Version), wire.NewApp(in.Org, stored)}, nil
		}),
		newEndpoint(deleteOrg, func(ctx context.Context, x *exchange, in *wire.OrgPath) (*struct{}, error) {
			ctx = context.WithoutCancel(ctx) // a deletion that has begun completes even if the client disconnects
			return nil, a.keeper.As(x.principal).Setup().DeleteOrg(ctx, in.Org, a.store.As(x.principal).Delete)
		}),
		newEndpoint(deleteApp, func(ctx context.Context, x *exchange, in *wire.AppPath) (*struct{}, error) {
			ctx = context.WithoutCancel(ctx)
			return nil, a.keeper.As(x.principal).Setup().DeleteApp(ctx, in.Org, in.App, a.store.As(x.principal).Delete)
		}),
		newEndpoint(route{
			id: "adjust", method: http.MethodPost, path: appRoute + "/adjustments", tag: "administration", needs: provider,
			summary: "Credit or charge a day by hand", conflict: wire.IdempotencyConflict, errors: []int{http.StatusConflict},
			description: "Applied once under its id: sent again, it is answered with what was applied; with other contents it is a conflict. After 503 send the same again.",
			request:     exampleAdjustment,
		}, a.applyAdjustment),
		newEndpoint(route{
			id: "override", method: http.MethodPut, path: appRoute + "/override", tag: "administration", needs: provider,
			summary: "Force an app's label until an instant", conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
			description: "It holds whatever was spent. Other servers follow within 30 seconds.",
			request:     exampleOverride,
		}, func(ctx context.Context, x *exchange, in *overrideInput) (*overrideOutput, error) {
			err := a.keeper.As(x.principal).Setup().Override(ctx, in.Org, in.App, in.Body.Label, in.Body.Until)
			return &overrideOutput{in.Body}, err
		}),
		newEndpoint(route{
			id: "clearOverride", method: http.MethodDelete, path: appRoute + "/override", tag: "administration", needs: provider,
			summary: "End an override", description: "There need not be one.", status: http.StatusNoContent,
			conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		}, func(ctx context.Context, x *exchange, in *wire.AppPath) (*struct{}, error) {
			return nil, a.keeper.As(x.principal).Setup().ClearOverride(ctx, in.Org, in.App)
		}),
		newEndpoint(route{
			id: "listPrices", method: http.MethodGet, path: "/prices", tag: "administration", needs: provider,
			summary: "List prices", description: "Those that are stored and those that are built in. What a label costs now is in the answer of the selection. It scans the control table.",
		}, a.listPrices),
	}
}

// putOrg stores an organisation's configuration, if the version of the request fits, with the principal as the
// author. It then issues credentials if the organisation has none, and answers 201 with a retrieval token, else
// 200. If the second step fails, the client can repeat the PUT.
func (a administration) putOrg(ctx context.Context, x *exchange, in *orgInput) (*orgOutput, error) {
	org := in.Body.Budget(in.Org)
	var err error
	if org.Version, err = in.Version(org.Version); err != nil {
		return nil, err
	}
	stored, err := a.keeper.As(x.principal).Setup().PutOrg(ctx, org)
	if err != nil {
		return nil, err
	}
	issued, err := a.issueCredentials(ctx, x, in.Org, "", func(ctx context.Context) error { _, err := a.keeper.Setup().GetOrg(ctx, in.Org); return err })
	if err != nil {
		return nil, err
	}
	out := &orgOutput{putStatus(issued.Created), wire.ETag(stored.Version), wire.NewOrg(stored)}
	out.Body.Issued = wire.NewIssued(issued)
	return out, nil
}

// putApp stores an app's configuration, if the version of the request fits, with the principal as the author.
// It then issues credentials if the app has none, and answers 201 with a retrieval token, else 200. If the
// second step fails, the client can repeat the PUT.
func (a administration) putApp(ctx context.Context, x *exchange, in *appInput) (*appOutput, error) {
	app := in.Body.Budget(in.App)
	var err error
	if app.Version, err = in.Version(app.Version); err != nil {
		return nil, err
	}
	stored, err := a.keeper.As(x.principal).Setup().PutApp(ctx, in.Org, app)
	if err != nil {
		return nil, err
	}
	issued, err := a.issueCredentials(ctx, x, in.Org, in.App, func(ctx context.Context) error { _, err := a.keeper.Setup().GetApp(ctx, in.Org, in.App); return err })
	if err != nil {
		return nil, err
	}
	out := &appOutput{putStatus(issued.Created), wire.ETag(stored.Version), wire.NewApp(in.Org, stored)}
	out.Body.Issued = wire.NewIssued(issued)
	return out, nil
}

// issueCredentials creates credentials for an organisation, or for its app unless that is "", and returns them
// with Created false if some exist. It continues if the client disconnects. If look, which reads the tenant
// again, returns ErrNotFound, it deletes the new credentials and returns that error.
func (a administration) issueCredentials(ctx context.Context, x *exchange, org, app string, look func(context.Context) error) (credentials.Issued, error) {
	ctx = context.WithoutCancel(ctx) // completes even if the client disconnects
	store := a.store.As(x.principal)
	issued, err := store.Create(ctx, org, app)
	if err != nil || !issued.Created {
		return issued, err
	}
	if gone := look(ctx); errors.Is(gone, budget.ErrNotFound) {
		return credentials.Issued{}, cmp.Or(store.Delete(ctx, org, app), gone)
	}
	return issued, nil
}

// putStatus returns 201 if the PUT created credentials, else 200.
func putStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// applyAdjustment applies a manual credit or charge once under its id, with the request's principal as the
// author. For a repetition it returns the adjustment applied before, with the header Idempotent-Replay.
func (a administration) applyAdjustment(ctx context.Context, x *exchange, in *adjustmentInput) (*adjustmentOutput, error) {
	applied, err := a.keeper.As(x.principal).Setup().Adjust(ctx, in.Org, in.App, in.Body.Budget())
	if err != nil {
		return nil, err
	}
	out := &adjustmentOutput{Body: wire.NewAdjusted(applied)}
	if applied.Duplicate {
		out.Replay = "true"
	}
	return out, nil
}

// listPrices returns the stored prices, ordered by model, and the built-in ones. It scans the
// control table.
func (a administration) listPrices(ctx context.Context, _ *exchange, _ *struct{}) (*pricesOutput, error) {
	out := wire.Prices{Stored: []wire.StoredModel{}, Catalog: wire.NewPriceRows(prices.Catalog())}
	for m, err := range a.keeper.Prices().Models(ctx) {
		if err != nil {
			return nil, err
		}
		out.Stored = append(out.Stored, wire.NewStoredModel(m))
	}
	slices.SortFunc(out.Stored, func(x, y wire.StoredModel) int { return strings.Compare(x.Model, y.Model) })
	return &pricesOutput{out}, nil
}
