package console

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

type models struct {
	Group     string
	Rows      []modelRow
	Chart     *chart
	Everybody string
	Members   string
	// Priced means that a model has a price, and Counted that the days of the chart have money by model.
	Priced, Counted bool
}

type modelRow struct {
	Name, Limits, Price, Tag, Class string
	// Spent is the money of the model in the days of the chart.
	Spent   string
	Groups  []string
	IsGroup bool
}

// modelsPage returns the page of resources, with their groups, limits, prices in dollars and spend, and the
// chart of the main one's days. A resource without a price shows none.
func modelsPage(ctx context.Context, v *view) (*page, string, error) {
	c, err := v.readCatalog(ctx, v.options.Resource)
	if err != nil {
		return nil, "", err
	}
	b := &models{Group: c.Main, Members: strings.Join(c.Models, ", ")}
	groups := map[string]bool{}
	for _, r := range c.Resources {
		for _, group := range r.Config.Groups {
			groups[group] = true
		}
	}
	for _, r := range c.Resources {
		row := modelRow{Name: r.Scope.Resource, Groups: r.Config.Groups, IsGroup: groups[r.Scope.Resource], Limits: describeLimits(r.Config.Limits, r.Config.Unlimited)}
		if isBlocked(r.Config) {
			row.Tag, row.Class = "Blocked", "bad"
		}
		if price, err := v.options.Prices.Price(row.Name, v.now()); err == nil {
			row.Price, b.Priced = formatDollars(price.Input)+" in, "+formatDollars(price.Output)+" out", true
		}
		if row.Name == c.Main {
			b.Everybody = row.Limits
		}
		b.Rows = append(b.Rows, row)
	}
	closed, err := v.closedTo(ctx)
	if err != nil {
		return nil, "", err
	}
	return &page{Title: "Models", Nav: "models", Body: b, Notes: usageNotes(v, closed)}, "models", addModelUsage(ctx, v, c, b, closed)
}

// addModelUsage adds to b the chart of the main resource's closed days, by its limit of money or else its first
// one. It also adds the money of each model in these days. It adds nothing without closed usage or a main
// resource.
func addModelUsage(ctx context.Context, v *view, c catalog, b *models, closed time.Time) error {
	if closed.IsZero() || c.Main == "" {
		return nil
	}
	last := midnight(v.now()).AddDate(0, 0, -1)
	if closed.Before(last.AddDate(0, 0, 1)) {
		last = midnight(closed).AddDate(0, 0, -1)
	}
	all, err := v.readUsage("resource "+c.Main, aggregator.Day, last.AddDate(0, 0, 2-shownDays), last.AddDate(0, 0, 1), func(q aggregator.Query) iter.Seq2[aggregator.Usage, error] {
		return v.usage.Resource(ctx, c.Main, q)
	})
	if err != nil {
		return err
	}
	limit, spent := "", map[string]int64{}
	for _, u := range all {
		for _, l := range u.Limits {
			if limit == "" || v.isMoney(l.Limit) && !v.isMoney(limit) {
				limit = l.Limit
			}
			for model, n := range l.ByModel {
				spent[model] += n / milli
			}
		}
	}
	if limit == "" {
		return nil
	}
	money, starts := v.isMoney(limit), windowsBack(aggregator.Day, last, shownDays-1)
	b.Chart = newChart("By day", "Day", dayLabels(starts), stackModels(all, c.Main, limit, money, starts), money, 0, false)
	for i, r := range b.Rows {
		if n, counted := spent[r.Name]; counted && money {
			b.Rows[i].Spent, b.Counted = formatAmount(money, n), true
		}
	}
	return nil
}

type plans struct {
	Group string
	Rows  []planRow
	More  bool
}

type planRow struct {
	Name, Default, Main, Managed, Tag, Class string
	Yesterday                                string
	Entities                                 int64
}

// mostPlanUsage bounds the number of plans with usage on a page.
const mostPlanUsage = 7

// plansPage returns the page of plans with their limits and, for the first seven and if the day is closed, the
// usage of yesterday.
func plansPage(ctx context.Context, v *view) (*page, string, error) {
	c, err := v.readCatalog(ctx, v.options.Resource)
	if err != nil {
		return nil, "", err
	}
	closed, err := v.closedTo(ctx)
	if err != nil {
		return nil, "", err
	}
	b := &plans{Group: c.Main}
	at := map[string]int{}
	for _, source := range c.Plans {
		i, known := at[source.Scope.Plan]
		if !known {
			i = len(b.Rows)
			at[source.Scope.Plan], b.Rows = i, append(b.Rows, planRow{Name: source.Scope.Plan})
		}
		text := describeLimits(source.Config.Limits, source.Config.Unlimited)
		if source.Scope.Resource == "" {
			b.Rows[i].Default = text
		} else {
			b.Rows[i].Main = text
		}
		if source.Config.ManagedBy != "" {
			b.Rows[i].Managed = source.Config.ManagedBy
		}
		if isBlocked(source.Config) {
			b.Rows[i].Tag, b.Rows[i].Class = "Blocked", "bad"
		}
	}
	b.More = len(b.Rows) >= mostPlans
	day := midnight(v.now()).AddDate(0, 0, -1)
	for i := range b.Rows[:min(len(b.Rows), mostPlanUsage)] {
		if closed.Before(day.AddDate(0, 0, 1)) {
			break
		}
		if err := addPlanUsage(ctx, v, c, &b.Rows[i], day); err != nil {
			return nil, "", err
		}
	}
	return &page{Title: "Plans", Nav: "plans", Body: b}, "plans", nil
}

// addPlanUsage sets in r the usage of a plan's entities on a day, on the main resource, as text, and their
// number. Money comes first.
func addPlanUsage(ctx context.Context, v *view, c catalog, r *planRow, day time.Time) error {
	used, err := v.readUsage("plan "+r.Name, aggregator.Day, day, day.AddDate(0, 0, 1), func(q aggregator.Query) iter.Seq2[aggregator.Usage, error] {
		q.Resource = c.Main
		return v.usage.Plan(ctx, r.Name, q)
	})
	if err != nil {
		return err
	}
	var words []string
	for _, u := range used {
		r.Entities = u.Entities
		for _, l := range u.Limits {
			if text := formatAmount(v.isMoney(l.Limit), l.Consumed/milli); v.isMoney(l.Limit) {
				words = slices.Insert(words, 0, text)
			} else {
				words = append(words, text+" "+l.Limit)
			}
		}
	}
	r.Yesterday = strings.Join(words, ", ")
	return nil
}
