package budgethttp

import (
	"context"
	"net/http"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

func (s *Server) deletionRoutes() {
	of := route{
		method: http.MethodDelete, tag: "administration", needs: provider, status: http.StatusNoContent,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "Nothing is admitted or counted any more, and credentials and tokens end. What was counted is kept until its time ends. After 503 send the same again.",
	}
	org, app := of, of
	org.id, org.path, org.summary = "deleteOrg", orgRoute, "Delete an organisation with its apps"
	app.id, app.path, app.summary = "deleteApp", appRoute, "Delete an app"
	register(s, org, func(ctx context.Context, x *exchange, in *wire.OrgPath) (*struct{}, error) {
		return nil, s.keeper.As(x.principal).Setup().DeleteOrg(ctx, in.Org, s.store.As(x.principal).Delete)
	})
	register(s, app, func(ctx context.Context, x *exchange, in *wire.AppPath) (*struct{}, error) {
		return nil, s.keeper.As(x.principal).Setup().DeleteApp(ctx, in.Org, in.App, s.store.As(x.principal).Delete)
	})
}
