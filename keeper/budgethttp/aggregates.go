package budgethttp

import (
	"context"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

type (
	dayInput struct {
		wire.OrgPath
		wire.DayPath
	}
	appDayInput struct {
		wire.AppPath
		wire.DayPath
	}
	totalsOutput struct{ Body wire.Totals }
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

// aggregates is the routes for spend.
type aggregates struct{ keeper *budget.Keeper }

// endpoints returns the routes, with handlers, for the totals of a day and the history of several days, of an
// organisation or an app. All need a token.
func (a aggregates) endpoints() []endpoint {
	of := func(id, path, summary string) route {
		return route{
			id: id, method: http.MethodGet, path: path, tag: "aggregates", summary: summary, needs: bearer, response: exampleTotals,
			description: "Cost, quota, tokens and requests, label by label, summed from the store.",
		}
	}
	history := route{
		method: http.MethodGet, tag: "aggregates", needs: bearer,
		description: "Day by day, oldest first, both ends included; days after today are left out.",
	}
	org, app := history, history
	org.id, org.path, org.summary = "orgHistory", orgRoute+"/history", "What an organisation spent, day by day"
	app.id, app.path, app.summary = "appHistory", appRoute+"/history", "What an app spent, day by day"
	return []endpoint{
		newEndpoint(of("orgToday", orgRoute+"/aggregates/today", "What an organisation spent today"),
			func(ctx context.Context, _ *exchange, in *wire.OrgPath) (*totalsOutput, error) {
				return a.dayTotals(ctx, in.Org, "", "")
			}),
		newEndpoint(of("orgDay", orgRoute+"/aggregates/{date}", "What an organisation spent on a day"),
			func(ctx context.Context, _ *exchange, in *dayInput) (*totalsOutput, error) {
				return a.dayTotals(ctx, in.Org, "", in.Day)
			}),
		newEndpoint(of("appToday", appRoute+"/aggregates/today", "What an app spent today"),
			func(ctx context.Context, _ *exchange, in *wire.AppPath) (*totalsOutput, error) {
				return a.dayTotals(ctx, in.Org, in.App, "")
			}),
		newEndpoint(of("appDay", appRoute+"/aggregates/{date}", "What an app spent on a day"),
			func(ctx context.Context, _ *exchange, in *appDayInput) (*totalsOutput, error) {
				return a.dayTotals(ctx, in.Org, in.App, in.Day)
			}),
		newEndpoint(org, func(ctx context.Context, _ *exchange, in *historyInput) (*historyOutput, error) {
			return a.dayHistory(ctx, in.Org, "", in.DayRange)
		}),
		newEndpoint(app, func(ctx context.Context, _ *exchange, in *appHistoryInput) (*historyOutput, error) {
			return a.dayHistory(ctx, in.Org, in.App, in.DayRange)
		}),
	}
}

// dayTotals returns the totals of a day, such as 20260123 or 2026-01-23, today's if day is "", of the whole
// organisation if app is "". Amounts are in micro-dollars.
func (a aggregates) dayTotals(ctx context.Context, org, app, day string) (*totalsOutput, error) {
	sums, err := a.keeper.Totals(ctx, org, app, wire.StoredDay(day))
	if err != nil {
		return nil, err
	}
	return &totalsOutput{wire.NewTotals(org, app, sums)}, nil
}

const maxDays = 366 // in one response, after the first

// dayHistory returns the totals of each day of a range, oldest first, of the whole organisation if app is
// empty. A last day more than 366 days after the first is a 400 response.
func (a aggregates) dayHistory(ctx context.Context, org, app string, days wire.DayRange) (*historyOutput, error) {
	from, to := wire.StoredDay(days.From), wire.StoredDay(days.To)
	if tooLong(from, to) {
		return nil, wire.NewError(http.StatusBadRequest, wire.InvalidRequest, "to: it is more than 366 days after from: ask for less at once").
			Field("to", "expected at most 366 days after from")
	}
	out := wire.History{Org: org, App: app, Days: []wire.Totals{}}
	for day, err := range a.keeper.History(ctx, org, app, from, to) {
		if err != nil {
			return nil, err
		}
		out.Days = append(out.Days, wire.NewTotals(org, app, day))
	}
	return &historyOutput{out}, nil
}

// tooLong reports whether two days like 20260123 are more than maxDays days apart. It is false for invalid
// days, which the keeper reports.
func tooLong(from, to string) bool {
	first, err := time.Parse("20060102", from)
	if err != nil {
		return false
	}
	last, err := time.Parse("20060102", to)
	return err == nil && last.Sub(first) > maxDays*24*time.Hour
}
