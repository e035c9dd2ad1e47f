package console

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

const (
	// mostAccounts is how many tops the overview shows.
	mostAccounts = 15
	// shownConsumers is the length of the list of top consumers, and mostAsked how many candidates it is made of.
	shownConsumers, mostAsked = 8, 20
)

type overview struct {
	Group, Name  string
	Day, Month   *total
	Closed       string
	Answers      bool
	Accounts     []row
	MoreAccounts bool
	Chart        *chart
	Consumers    []row
	Attention    []attention
	HasUsage     bool
	Empty        bool
}

// total is a tile with the sum of the accounts' quotas.
type total struct {
	gauge
	Title, Below string
}

// attention is an entity that is blocked or nearly spent.
type attention struct {
	Tag, Class, ID, Link, Limit, Text string

	percent int
}

// overviewPage returns the page of the whole table: the quotas of up to 15 accounts with their sums, and the
// chart of days. It also has the largest consumers, and the entities that need attention. A poll gets no chart.
func overviewPage(ctx context.Context, v *view) (*page, string, error) {
	p := &page{Title: "Overview", Nav: "overview"}
	p.setPolls(v, "", listEvery)
	c, err := v.readCatalog(ctx, v.options.Resource)
	if err != nil {
		return nil, "", err
	}
	tops, err := v.readList("tops", func() ([]admin.Entity, error) {
		found, err := v.admin.Entities.Tops(ctx, "", mostAccounts+1)
		if err == nil && len(found) == 0 {
			found, err = v.admin.Entities.Search(ctx, "", "", mostAccounts+1)
		}
		return found, err
	})
	if err != nil {
		return nil, "", err
	}
	o := &overview{Group: c.Main, Name: v.now().UTC().Format("Jan"), Empty: len(tops) == 0 && len(c.Resources) == 0 && len(c.System.Limits) == 0}
	o.MoreAccounts = len(tops) > mostAccounts
	tops = tops[:min(len(tops), mostAccounts)]
	f, err := v.readForest(ctx, c, tops)
	if err != nil {
		return nil, "", err
	}
	for _, e := range tops {
		o.Accounts = append(o.Accounts, v.newRow(f, e))
	}
	o.Day, o.Month = sumAccounts(v, o.Accounts, "day"), sumAccounts(v, o.Accounts, "month")
	if o.Consumers, err = consumerRows(ctx, v, f, o.Day); err != nil {
		return nil, "", err
	}
	o.Attention = entitiesInNeed(append(slices.Clone(o.Accounts), o.Consumers...))
	closed, err := v.closedTo(ctx)
	if err != nil {
		return nil, "", err
	}
	o.HasUsage = !closed.IsZero()
	if o.HasUsage {
		o.Closed = closed.In(v.options.Location).Format("Jan 2, 15:04")
	}
	if !v.query.Has("poll") {
		if err := chartOverview(ctx, v, c, o, closed); err != nil {
			return nil, "", err
		}
		p.Notes = append(p.Notes, usageNotes(v, closed)...)
	}
	o.Answers = v.stale.IsZero() || v.busy
	p.Body = o
	return p, "overview", nil
}

// usageNotes returns a note about the program to start if closed, the end of the summed usage, is more than 26
// h ago or zero. It returns nil otherwise, and without a reader of usage.
func usageNotes(v *view, closed time.Time) []note {
	if v.usage == nil || !closed.IsZero() && v.now().Sub(closed) < 26*time.Hour {
		return nil
	}
	return []note{{
		Title: "Nothing follows the table's stream,", Text: "so there is no usage by hour and day. Quotas and buckets are exact all the same. Start a tail, or the function of AWS Lambda: the stream keeps a day, and what was used since then is found.",
		Command: "dynalimit tail --table " + v.table,
	}}
}

// sumAccounts returns a tile with the sum of the accounts' quotas of a window, "day" or "month", with the first
// one's name and unit. It also adds the tile to the polled cells. It is nil if no account has such a quota.
func sumAccounts(v *view, accounts []row, window string) *total {
	t := total{gauge: gauge{Key: "total " + window, quota: true}}
	for _, r := range accounts {
		g := r.Day
		if window == "month" {
			g = r.Month
		}
		if g == nil || g.window != window || t.Name != "" && (g.money != t.money || g.Name != t.Name) {
			continue
		}
		t.Name, t.money = g.Name, g.money
		t.used, t.capacity = t.used+g.used, t.capacity+g.capacity
	}
	if t.Name == "" {
		return nil
	}
	t.Used, t.Of, t.Class = formatAmount(t.money, t.used), formatAmount(t.money, t.capacity), "f"
	if t.capacity > 0 {
		t.Percent = int(float64(t.used) / float64(t.capacity) * 100)
	}
	switch {
	case t.Percent >= 100:
		t.Class = "full"
	case t.Percent >= 80:
		t.Class = "near"
	}
	word := "Used"
	if t.money {
		word = "Spent"
	}
	now := v.now().UTC()
	if window == "day" {
		t.Title, t.Below = word+" today", "new day in "+formatSpan(midnight(now).AddDate(0, 0, 1).Sub(now))
	} else {
		t.Title, t.Below = word+" in "+now.Format("Jan"), "of the accounts' quotas"
	}
	v.showGauge(&t.gauge)
	return &t
}

// consumer is a candidate of the largest consumers: its use of today, which is exact if its daily quota has it, and else
// the sum of the hours in which it was ranked.
type consumer struct {
	id      string
	used    int64
	money   bool
	atLeast bool
}

// rankConsumers returns up to eight largest consumers of today, largest first, from candidates of each closed
// hour. It also returns the buckets of all candidates, and the limit of the ranking. All are empty without a
// reader of usage or a main resource.
func rankConsumers(ctx context.Context, v *view, c catalog) (all []consumer, buckets map[string]admin.Bucket, limit string, err error) {
	if v.usage == nil || c.Main == "" {
		return nil, nil, "", nil
	}
	day := midnight(v.now())
	ranked, err := fetch(&v.visit, "largest "+c.Main+" "+day.Format(time.DateOnly), keepLists, 6, func() (map[string][]aggregator.Ranked, error) {
		return v.usage.Largest(ctx, c.Main, day, day.AddDate(0, 0, 1))
	})
	if err != nil {
		return nil, nil, "", err
	}
	limit = mainLimit(v, ranked)
	candidates := ranked[limit][:min(len(ranked[limit]), mostAsked)]
	ids := make([]string, len(candidates))
	for i, e := range candidates {
		ids[i] = e.Entity
	}
	if len(ids) == 0 {
		return nil, nil, limit, nil
	}
	if buckets, err = v.readBuckets(ctx, c.Main, ids); err != nil {
		return nil, nil, "", err
	}
	for _, e := range candidates {
		one := consumer{e.Entity, e.Consumed / milli, v.isMoney(limit), true}
		if g := findGauge(v.bucketGauges(buckets[e.Entity], v.options.Location), func(g gauge) bool { return g.Name == limit && g.window == "day" }); g != nil {
			one = consumer{e.Entity, g.used, g.money, false}
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(x, y consumer) int { return cmp.Compare(y.used, x.used) })
	return all[:min(len(all), shownConsumers)], buckets, limit, nil
}

// mainLimit returns the limit of money among the names of ranked, or else the first by name. It is "" if ranked
// is empty.
func mainLimit(v *view, ranked map[string][]aggregator.Ranked) (limit string) {
	for name := range ranked {
		if better := v.isMoney(name) && !v.isMoney(limit); limit == "" || better || v.isMoney(name) == v.isMoney(limit) && name < limit {
			limit = name
		}
	}
	return limit
}

// consumerRows returns the rows of the largest consumers, and adds their records to the forest f. A share is in
// percent of all, the day's total. The rows show no state of their parents, which are not read.
func consumerRows(ctx context.Context, v *view, f forest, all *total) ([]row, error) {
	largest, buckets, limit, err := rankConsumers(ctx, v, f.catalog)
	if err != nil || len(largest) == 0 {
		return nil, err
	}
	ids := make([]string, len(largest))
	for i, e := range largest {
		ids[i] = e.id
	}
	records, err := v.readRecords(ctx, ids)
	if err != nil {
		return nil, err
	}
	blocked, err := v.readBlocks(ctx, f.catalog.Main, ids)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, e := range largest {
		f.records[e.id], f.blocked[e.id], f.buckets[e.id] = records[e.id], blocked[e.id], buckets[e.id]
		r := v.newRow(f, records[e.id])
		r.Spent, r.AtLeast = formatAmount(e.money, e.used), e.atLeast
		if all != nil && all.Name == limit && all.used > 0 {
			r.Share = int(float64(e.used) / float64(all.used) * 100)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// entitiesInNeed returns the entities of rows that are blocked or have a quota at 80 % or more. They are at
// most nine: the blocked ones, then the fullest. An entity may occur once for each such quota.
func entitiesInNeed(rows []row) (all []attention) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		if r.State == "Blocked" {
			all = append(all, attention{Tag: "blocked", Class: "bad", ID: r.ID, Link: r.Link, Text: r.Name, percent: math.MaxInt})
		}
		for _, g := range []*gauge{r.Day, r.Month} {
			if g != nil && g.Percent >= 80 {
				class := "warn"
				if g.Percent >= 100 {
					class = "bad"
				}
				all = append(all, attention{fmt.Sprintf("%d %%", g.Percent), class, r.ID, r.Link, g.Name, g.Used + " of " + g.Of, g.Percent})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y attention) int { return cmp.Compare(y.percent, x.percent) })
	return all[:min(len(all), 9)]
}

// chartOverview sets o.Chart to the days of the main resource, of money by model, and the forecast in the
// month's tile. Today comes from its closed hours and the quotas of the accounts. It does nothing without
// closed usage or a limit.
func chartOverview(ctx context.Context, v *view, c catalog, o *overview, closed time.Time) error {
	today := midnight(v.now())
	limit, money := chartLimit(o.Accounts)
	if closed.IsZero() || c.Main == "" || limit == "" {
		return nil
	}
	last := today.AddDate(0, 0, -1)
	if closed.Before(today) {
		last = midnight(closed).AddDate(0, 0, -1)
	}
	read := func(w aggregator.Window, from, to time.Time) ([]aggregator.Usage, error) {
		return v.readUsage("resource "+c.Main, w, from, to, func(q aggregator.Query) iter.Seq2[aggregator.Usage, error] {
			return v.usage.Resource(ctx, c.Main, q)
		})
	}
	all, err := read(aggregator.Day, last.AddDate(0, 0, 2-shownDays), last.AddDate(0, 0, 1))
	if err != nil {
		return err
	}
	starts := windowsBack(aggregator.Day, last, shownDays-1)
	forecastMonth(o.Month, money, usageByWindow(all, c.Main, limit, starts).values, today)
	open := closed.After(last) && o.Day != nil && o.Day.Name == limit
	if open {
		hours, err := read(aggregator.Hour, today, closed)
		if err != nil {
			return err
		}
		starts, all = append(starts, today), append(slices.Clone(all), hoursOfDay(hours, today)...)
	}
	stacks := stackModels(all, c.Main, limit, money, starts)
	if open {
		stacks = addOpenUse(stacks, o.Day.used)
	}
	title := "Use a day"
	switch {
	case len(stacks) > 1:
		title = "Spend by model"
	case money:
		title = "Spend a day"
	}
	o.Chart = newChart(title, "Day", dayLabels(starts), stacks, money, 0, open)
	return nil
}

// forecastMonth sets month.Below to the expected use of the month's quotas at its end, as text, at the mean
// rate of the last seven days. It does nothing if month is nil or in another unit, or without days.
func forecastMonth(month *total, money bool, days []int64, today time.Time) {
	if month == nil || month.money != money || len(days) == 0 {
		return
	}
	week, rate := days[max(0, len(days)-7):], int64(0)
	for _, n := range week {
		rate += n
	}
	end := time.Date(today.Year(), today.Month()+1, 0, 0, 0, 0, 0, time.UTC)
	left := int64(end.Sub(today) / (24 * time.Hour))
	month.Below = fmt.Sprintf("%s by %s at last week's rate", formatAmount(money, month.used+rate/int64(len(week))*left), end.Format("Jan 2"))
}

// chartLimit returns the name of the limit of the accounts' charts, the first of money or else the first, and
// whether it is money. It is "" without gauges.
func chartLimit(accounts []row) (limit string, money bool) {
	for _, r := range accounts {
		for _, g := range []*gauge{r.Day, r.Month, r.Rate} {
			if g != nil && (limit == "" || g.money && !money) {
				limit, money = g.Name, g.money
			}
		}
	}
	return limit, money
}
