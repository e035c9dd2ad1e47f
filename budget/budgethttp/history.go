package budgethttp

import (
	"context"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

type (
	historyInput struct {
		wire.OrgPath
		wire.DayRange
	}
	appHistoryInput struct {
		wire.AppPath
		wire.DayRange
	}
	historyOutput struct{ Body wire.History }
)

const maxDays = 366 // of one answer, after the first

func (s *Server) historyRoutes() {
	about := route{
		method: http.MethodGet, tag: "aggregates", needs: bearer,
		description: "Day by day, oldest first, both ends included; days after today are left out.",
	}
	org, app := about, about
	org.id, org.path, org.summary = "orgHistory", orgRoute+"/history", "What an organisation spent, day by day"
	app.id, app.path, app.summary = "appHistory", appRoute+"/history", "What an app spent, day by day"
	register(s, org, func(ctx context.Context, _ *exchange, in *historyInput) (*historyOutput, error) {
		return s.history(ctx, in.Org, "", in.DayRange)
	})
	register(s, app, func(ctx context.Context, _ *exchange, in *appHistoryInput) (*historyOutput, error) {
		return s.history(ctx, in.Org, in.App, in.DayRange)
	})
}

func (s *Server) history(ctx context.Context, org, app string, days wire.DayRange) (*historyOutput, error) {
	from, to := wire.Day(days.From), wire.Day(days.To)
	if tooLong(from, to) {
		return nil, wire.NewError(http.StatusBadRequest, wire.InvalidRequest, "to: it is more than 366 days after from: ask for less at once").
			Field("to", "expected at most 366 days after from")
	}
	out := wire.History{Org: org, App: app, Days: []wire.Totals{}}
	for day, err := range s.keeper.History(ctx, org, app, from, to) {
		if err != nil {
			return nil, err
		}
		out.Days = append(out.Days, wire.NewTotals(org, app, day))
	}
	return &historyOutput{out}, nil
}

// tooLong leaves what is no day to the keeper.
func tooLong(from, to string) bool {
	first, err := time.Parse("20060102", from)
	if err != nil {
		return false
	}
	last, err := time.Parse("20060102", to)
	return err == nil && last.Sub(first) > maxDays*24*time.Hour
}
