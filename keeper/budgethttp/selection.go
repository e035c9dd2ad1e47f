package budgethttp

import (
	"context"
	"net/http"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

type (
	selectionInput struct {
		wire.AppPath
		Fresh bool `query:"force_check" doc:"Ask the store, at most every 500 ms, even if everything is known"`
	}
	selectionOutput struct {
		CacheControl string `header:"Cache-Control" doc:"How long the answer may be kept"`
		Body         wire.Selection
	}
	estimateInput struct {
		wire.AppPath
		wire.EstimateQuery
	}
	estimateOutput struct{ Body wire.Estimate }
)

// selections is the routes that clients use before a call.
type selections struct {
	keeper *budget.Keeper
	known  *recommended
}

// endpoints returns the routes that recommend a model and estimate a cost. Both need a token.
func (s selections) endpoints() []endpoint {
	return []endpoint{
		newEndpoint(route{
			id: "selectModel", method: http.MethodGet, path: appRoute + "/model-selection",
			tag: "selection", summary: "Say which model an app may use now", needs: bearer, errors: []int{http.StatusTooManyRequests},
			description: "The first label of the app's ordering that has a price and room in its quota. The answer may be kept for cache_duration_secs. 429: no label has room until retry_after.",
			response:    exampleSelection,
		}, s.selectModel),
		newEndpoint(route{
			id: "estimate", method: http.MethodGet, path: appRoute + "/estimate", tag: "selection", needs: bearer,
			summary: "Say what a call would cost", description: "At a label's price now, rounded up.",
			response: exampleEstimate,
		}, s.estimateCost),
	}
}

// selectModel recommends a label for the app, and returns the last response again if nothing in it changed.
// With Fresh it first reads the spend from the store, at most every 500 ms. It fails if no label has room.
func (s selections) selectModel(ctx context.Context, _ *exchange, in *selectionInput) (*selectionOutput, error) {
	recommend := s.keeper.Recommend
	if in.Fresh {
		recommend = s.keeper.RecommendFresh
	}
	r, err := recommend(ctx, in.Org, in.App)
	if err != nil {
		return nil, err
	}
	return s.known.responseFor(in.Org, in.App, r), nil
}

// estimateCost returns the cost in micro-dollars, rounded up, of a call with in.Input tokens and a reply of
// in.Most, at the label's price now.
func (s selections) estimateCost(ctx context.Context, _ *exchange, in *estimateInput) (*estimateOutput, error) {
	micros, err := s.keeper.Estimate(ctx, in.Org, in.App, in.Label, in.Input, in.Most)
	if err != nil {
		return nil, err
	}
	return &estimateOutput{wire.Estimate{Label: in.Label, Micros: micros}}, nil
}
