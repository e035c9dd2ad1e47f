package budgethttp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

type (
	selectionInput struct {
		wire.AppPath
		Fresh bool `query:"force_check" doc:"Ask the store, even if everything is known"`
	}
	selectionOutput struct {
		CacheControl string `header:"Cache-Control" doc:"How long the answer may be kept"`
		Body         wire.Selection
	}
	dayInput struct {
		wire.OrgPath
		wire.DayPath
	}
	appDayInput struct {
		wire.AppPath
		wire.DayPath
	}
	totalsOutput struct{ Body wire.Totals }
)

func (s *Server) selectionRoutes() {
	register(s, route{
		id: "selectModel", method: http.MethodGet, path: appRoute + "/model-selection",
		tag: "selection", summary: "Say which model an app may use now", needs: bearer, errors: []int{http.StatusTooManyRequests},
		description: "The first label of the app's ordering that has a price and room in its quota. The answer may be kept for cache_duration_secs. 429: no label has room until retry_after.",
		response:    exampleSelection,
	}, s.selectModel)
}

func (s *Server) selectModel(ctx context.Context, _ *exchange, in *selectionInput) (*selectionOutput, error) {
	recommend := s.keeper.Recommend
	if in.Fresh {
		recommend = s.keeper.RecommendFresh
	}
	r, err := recommend(ctx, in.Org, in.App)
	if err != nil {
		return nil, err
	}
	out := &selectionOutput{Body: wire.NewSelection(in.Org, in.App, r)}
	out.CacheControl = fmt.Sprintf("private, max-age=%d", out.Body.CacheDurationSecs)
	return out, nil
}

func (s *Server) aggregateRoutes() {
	about := func(id, path, summary string) route {
		return route{
			id: id, method: http.MethodGet, path: path, tag: "aggregates", summary: summary, needs: bearer, response: exampleTotals,
			description: "Cost, quota, tokens and requests, label by label, summed from the store.",
		}
	}
	register(s, about("orgToday", orgRoute+"/aggregates/today", "What an organisation spent today"),
		func(ctx context.Context, _ *exchange, in *wire.OrgPath) (*totalsOutput, error) {
			return s.totals(ctx, in.Org, "", "")
		})
	register(s, about("orgDay", orgRoute+"/aggregates/{date}", "What an organisation spent on a day"),
		func(ctx context.Context, _ *exchange, in *dayInput) (*totalsOutput, error) {
			return s.totals(ctx, in.Org, "", in.Day)
		})
	register(s, about("appToday", appRoute+"/aggregates/today", "What an app spent today"),
		func(ctx context.Context, _ *exchange, in *wire.AppPath) (*totalsOutput, error) {
			return s.totals(ctx, in.Org, in.App, "")
		})
	register(s, about("appDay", appRoute+"/aggregates/{date}", "What an app spent on a day"),
		func(ctx context.Context, _ *exchange, in *appDayInput) (*totalsOutput, error) {
			return s.totals(ctx, in.Org, in.App, in.Day)
		})
}

// totals sums a day; an empty one is today.
func (s *Server) totals(ctx context.Context, org, app, day string) (*totalsOutput, error) {
	sums, err := s.keeper.Totals(ctx, org, app, wire.Day(day))
	if err != nil {
		return nil, err
	}
	return &totalsOutput{wire.NewTotals(org, app, sums)}, nil
}

type healthOutput struct {
	Body struct {
		Status string `json:"status" enum:"ok,degraded" doc:"degraded: the store does not answer, and calls are served without it" example:"ok"`
	}
}

func (s *Server) healthRoutes() {
	register(s, route{
		id: "health", method: http.MethodGet, path: "/health", root: true, tag: "service",
		summary: "Say whether requests can be served", description: "503: they cannot. It makes no request of the store.",
	}, func(context.Context, *exchange, *struct{}) (*healthOutput, error) {
		health := s.keeper.Health()
		if !health.Ready {
			return nil, &budget.UnavailableError{Package: "budget", Op: "Health", Err: health.Cause}
		}
		var out healthOutput
		out.Body.Status = "ok"
		if health.Open {
			out.Body.Status = "degraded"
		}
		return &out, nil
	})
}
