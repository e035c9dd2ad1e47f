package budgethttp

import (
	"context"
	"net/http"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

type (
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
)

func (s *Server) adjustmentRoutes() {
	register(s, route{
		id: "adjust", method: http.MethodPost, path: appRoute + "/adjustments", tag: "administration", needs: provider,
		summary: "Credit or charge a day by hand", conflict: wire.IdempotencyConflict, errors: []int{http.StatusConflict},
		description: "Applied once under its id: sent again, it is answered with what was applied; with other contents it is a conflict. After 503 send the same again.",
		request:     exampleAdjustment,
	}, s.adjust)
	register(s, route{
		id: "override", method: http.MethodPut, path: appRoute + "/override", tag: "administration", needs: provider,
		summary: "Force an app's label until an instant", conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
		description: "It holds whatever was spent. Other servers follow within 30 seconds.",
		request:     exampleOverride,
	}, func(ctx context.Context, x *exchange, in *overrideInput) (*overrideOutput, error) {
		err := s.keeper.As(x.principal).Setup().Override(ctx, in.Org, in.App, in.Body.Label, in.Body.Until)
		return &overrideOutput{in.Body}, err
	})
	register(s, route{
		id: "clearOverride", method: http.MethodDelete, path: appRoute + "/override", tag: "administration", needs: provider,
		summary: "End an override", description: "There need not be one.", status: http.StatusNoContent,
		conflict: wire.ConcurrentModification, errors: []int{http.StatusConflict},
	}, func(ctx context.Context, x *exchange, in *wire.AppPath) (*struct{}, error) {
		return nil, s.keeper.As(x.principal).Setup().ClearOverride(ctx, in.Org, in.App)
	})
}

func (s *Server) adjust(ctx context.Context, x *exchange, in *adjustmentInput) (*adjustmentOutput, error) {
	a, err := s.keeper.As(x.principal).Setup().Adjust(ctx, in.Org, in.App, in.Body.Budget())
	if err != nil {
		return nil, err
	}
	out := &adjustmentOutput{Body: wire.NewAdjusted(a)}
	if a.Duplicate {
		out.Replay = "true"
	}
	return out, nil
}
