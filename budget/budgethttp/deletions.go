package budgethttp

import (
	"context"
	"net/http"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

type (
	deleteInput struct {
		wire.OrgPath
		wire.Purge
	}
	appDeleteInput struct {
		wire.AppPath
		wire.Purge
	}
	deleteOutput struct {
		Status int
		Body   wire.Deleted
	}
)

func (s *Server) deletionRoutes() {
	of := route{
		method: http.MethodDelete, tag: "administration", needs: provider, also: http.StatusAccepted,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "Nothing is admitted or counted any more, and credentials and tokens end. What was counted is kept, or removed with purge=true. 202: a purge waits until every process has noticed; a sweep completes it, or the same request at again_at. After 503 send the same again.",
	}
	org, app := of, of
	org.id, org.path, org.summary = "deleteOrg", orgRoute, "Delete an organisation with its apps"
	app.id, app.path, app.summary = "deleteApp", appRoute, "Delete an app"
	register(s, org, func(ctx context.Context, x *exchange, in *deleteInput) (*deleteOutput, error) {
		return deleted(s.keeper.As(x.principal).DeleteOrg(ctx, in.Org, s.deletion(x, in.Purge.Purge)))
	})
	register(s, app, func(ctx context.Context, x *exchange, in *appDeleteInput) (*deleteOutput, error) {
		return deleted(s.keeper.As(x.principal).DeleteApp(ctx, in.Org, in.App, s.deletion(x, in.Purge.Purge)))
	})
}

// purgePages is how much of a purge a request does, in pages of 1 MB: a client waits for it.
// The next request, or a sweep, goes on.
const purgePages = 20

func (s *Server) deletion(x *exchange, purge bool) budget.Deletion {
	return budget.Deletion{Purge: purge, Revoke: s.store.As(x.principal).Delete, Pages: purgePages}
}

func deleted(r budget.DeletionReport, err error) (*deleteOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &deleteOutput{http.StatusOK, wire.NewDeleted(r)}
	if !r.Complete {
		out.Status = http.StatusAccepted
	}
	return out, nil
}
