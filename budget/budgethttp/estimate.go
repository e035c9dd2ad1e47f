package budgethttp

import (
	"context"
	"net/http"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

type (
	estimateInput struct {
		wire.AppPath
		wire.EstimateQuery
	}
	estimateOutput struct{ Body wire.Estimate }
)

func (s *Server) estimateRoutes() {
	register(s, route{
		id: "estimate", method: http.MethodGet, path: appRoute + "/estimate", tag: "selection", needs: bearer,
		summary: "Say what a call would cost", description: "At a label's price now, rounded up.",
		response: exampleEstimate,
	}, func(ctx context.Context, _ *exchange, in *estimateInput) (*estimateOutput, error) {
		micros, err := s.keeper.Estimate(ctx, in.Org, in.App, in.Label, in.Input, in.Most)
		if err != nil {
			return nil, err
		}
		return &estimateOutput{wire.Estimate{Label: in.Label, Micros: micros}}, nil
	})
}
