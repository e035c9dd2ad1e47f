package budgetclient

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"regexp"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

var date = regexp.MustCompile(`^([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$`)

// Totals returns one day's usage by label, as budget.Keeper.Totals does, with costs in micro-dollars. An empty day
// means today, an empty app the whole organisation.
//
// Errors: *fault.ValidationError, budget.ErrNotFound, *fault.UnavailableError, *StatusError.
func (c *Client) Totals(ctx context.Context, org, app, day string) (budget.DayTotals, error) {
	if err := c.checkUsable(ctx); err != nil {
		return budget.DayTotals{}, err
	}
	path, err := targetPath(org, app, false)
	if err != nil {
		return budget.DayTotals{}, err
	}
	switch {
	case day == "":
		day = "today"
	case !date.MatchString(day):
		return budget.DayTotals{}, invalid("day", "%q is no day like 20260123", clipText(day))
	}
	var d dayTotals
	_, err = c.doCall(ctx, &call{
		op: "Totals", method: http.MethodGet, path: path + "/aggregates/" + day, into: &d,
		check: func() error {
			if d.Org != org || d.App != app || d.Day == "" {
				return errors.New("it holds no day, or another app's")
			}
			return nil
		},
	})
	if err != nil {
		return budget.DayTotals{}, err
	}
	return d.DayTotals, nil
}

// History returns the days from one to another, both included, oldest first, at most 367; an empty app means
// the whole organisation. It makes one request when the caller ranges over it. An error, as of Totals, is the
// only element.
func (c *Client) History(ctx context.Context, org, app, from, to string) iter.Seq2[budget.DayTotals, error] {
	if err := c.checkUsable(ctx); err != nil {
		return problem.ErrorList[budget.DayTotals](err)
	}
	return func(yield func(budget.DayTotals, error) bool) {
		days, err := c.requestDays(ctx, org, app, from, to)
		if err != nil {
			yield(budget.DayTotals{}, err)
			return
		}
		for _, d := range days {
			if !yield(d.DayTotals, nil) {
				return
			}
		}
	}
}

// requestDays requests the totals of the days from one to another, both included, oldest first; an empty app
// means the whole organisation. An answer for another app counts as no response, so the request is sent again.
func (c *core) requestDays(ctx context.Context, org, app, from, to string) ([]dayTotals, error) {
	path, err := targetPath(org, app, false)
	if err != nil {
		return nil, err
	}
	var h struct {
		Org  string      `json:"org_id"`
		App  string      `json:"app_id"`
		Days []dayTotals `json:"days"`
	}
	_, err = c.doCall(ctx, &call{
		op: "History", method: http.MethodGet, into: &h,
		path: path + "/history?" + url.Values{"from": {from}, "to": {to}}.Encode(),
		check: func() error {
			if h.Org != org || h.App != app || h.Days == nil {
				return errors.New("it holds no days, or another app's")
			}
			return nil
		},
	})
	return h.Days, err
}
