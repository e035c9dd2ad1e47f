package budgethttp

import (
	"context"
	"net/http"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

type healthOutput struct {
	Body struct {
		Status string `json:"status" enum:"ok,degraded" doc:"degraded: the store does not answer, and calls are served without it" example:"ok"`
	}
}

// service is the health route.
type service struct{ keeper *budget.Keeper }

// endpoints returns the health route, which needs no credential: 503 unless the keeper is ready,
// and "degraded" while a table does not answer.
func (s service) endpoints() []endpoint {
	return []endpoint{
		newEndpoint(route{
			id: "health", method: http.MethodGet, path: "/health", root: true, tag: "service",
			summary: "Say whether requests can be served", description: "503: they cannot. It makes no request of the store.",
		}, func(context.Context, *exchange, *struct{}) (*healthOutput, error) {
			health := s.keeper.Health()
			if !health.Ready {
				return nil, &fault.UnavailableError{Package: "budget", Op: "Health", Err: health.Cause}
			}
			var out healthOutput
			out.Body.Status = "ok"
			if health.Open {
				out.Body.Status = "degraded"
			}
			return &out, nil
		}),
	}
}
