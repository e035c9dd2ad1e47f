package budgethttp

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

type pricesOutput struct{ Body wire.Prices }

func (s *Server) priceRoutes() {
	register(s, route{
		id: "listPrices", method: http.MethodGet, path: "/prices", tag: "administration", needs: provider,
		summary: "List prices", description: "Those that are stored and those that are built in. What a label costs now is in the answer of the selection. It scans the control table.",
	}, s.prices)
}

func (s *Server) prices(ctx context.Context, _ *exchange, _ *struct{}) (*pricesOutput, error) {
	out := wire.Prices{Stored: []wire.StoredModel{}, Catalog: wire.NewPriceRows(budget.Catalog())}
	for m, err := range s.keeper.Prices().Models(ctx) {
		if err != nil {
			return nil, err
		}
		out.Stored = append(out.Stored, wire.NewStoredModel(m))
	}
	slices.SortFunc(out.Stored, func(a, b wire.StoredModel) int { return strings.Compare(a.Model, b.Model) })
	return &pricesOutput{out}, nil
}
