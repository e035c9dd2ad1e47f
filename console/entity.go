package console

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/audit"
)

type entityBody struct {
	ID, Name, State, Class string
	Plan                   string
	Parents                []link
	// Above means that a level above the visitor's subtree is charged too.
	Above, Known, Detached bool
	Hidden                 string
	Levels                 []level
	Hours, Days            *chart
	Usage                  []usageRow
	CSV, Alerts            string
	Children               []row
	MoreChildren           string
	Events                 []event
	HasEvents              bool
	Limited                bool
	HasUsage               bool
}

// level is an entity of the chain with its buckets.
type level struct {
	ID, Link, Note string
	Own            bool
	Buckets        []levelBucket
	Empty          bool
}

type levelBucket struct {
	Resource string
	Gauges   []gauge
}

// usageRow is the closed usage of one limit of a resource, or the part of a model in it.
type usageRow struct{ Resource, Limit, Model, Today, Days string }

// entityPage returns the page of an entity: the limits of its calls, its usage, its children and, without a
// subtree, its changes. A poll gets only the limits and the state. It returns errMissing if the visitor may not
// see the entity.
func entityPage(ctx context.Context, v *view, id string) (*page, string, error) {
	p := &page{Title: id, Nav: "entities"}
	p.setPolls(v, "entity/"+url.PathEscape(id), entityEvery)
	chain, err := readChain(ctx, v, id)
	if err != nil {
		return nil, "", err
	}
	c, err := v.readCatalog(ctx, v.options.Resource)
	if err != nil {
		return nil, "", err
	}
	own := chain[0].Entity
	b := &entityBody{ID: id, Name: own.Name, Plan: own.Plan, Known: !own.CreatedAt.IsZero() || own.Version > 0, Detached: own.Detached, Limited: v.access.Under != ""}
	if v.usage != nil {
		b.Alerts = v.pageHref("alerts", url.Values{"entity": {id}})
	}
	p.Body = b
	f := forest{records: map[string]admin.Entity{}, buckets: map[string]admin.Bucket{}, blocked: map[string]bool{}, catalog: c, under: v.access.Under}
	for _, o := range chain {
		f.records[o.Entity.ID] = o.Entity
		for _, source := range o.Configs {
			f.blocked[o.Entity.ID] = f.blocked[o.Entity.ID] || isBlocked(source.Config) && (source.Scope.Resource == "" || source.Scope.Resource == c.Main)
		}
	}
	all := addLevels(v, b, c, chain)
	b.State, b.Class = f.state(id, func(level string) []gauge { return all[level] })
	v.cells = append(v.cells, cell{Key: "s " + id, Text: b.State, Class: b.Class})
	for _, parent := range slices.Backward(b.Parents) {
		p.Crumbs = append(p.Crumbs, parent)
	}
	if v.access.Under == "" {
		p.Crumbs = slices.Insert(p.Crumbs, 0, link{"Entities", v.options.Prefix + "entities"})
	}
	if v.query.Has("poll") {
		return p, "entity", nil
	}
	p.Acts = changeLinks(chain, v)
	if err := addChildren(ctx, v, c, b, f); err != nil {
		return nil, "", err
	}
	b.Hidden = hiddenLimits(chain[0], c)
	if err := addUsage(ctx, v, c, b, chain, all[id]); err != nil {
		return nil, "", err
	}
	if v.access.Under == "" {
		b.Events, err = readEvents(ctx, v, audit.Query{Target: id, From: v.now().AddDate(0, 0, -90)}, 8)
		b.HasEvents = true
	}
	return p, "entity", err
}

// addLevels adds the levels of a chain that the visitor may see to b, with links to parents, and their gauges
// to the polled cells. It returns the gauges of all levels by entity, also of hidden ones.
func addLevels(v *view, b *entityBody, c catalog, chain []admin.Owned) map[string][]gauge {
	names := len(chain)
	if v.access.Under != "" {
		names = slices.IndexFunc(chain, func(o admin.Owned) bool { return o.Entity.ID == v.access.Under }) + 1
		b.Above = len(chain) > names
	}
	all := map[string][]gauge{}
	for i, o := range chain {
		l := level{ID: o.Entity.ID, Own: i == 0, Note: "charged too"}
		if i == 0 {
			l.Note = "this entity"
		} else {
			l.Link = v.entityHref(l.ID)
		}
		if i > 0 && chain[i-1].Entity.Detached {
			break // a parent for order alone
		}
		for _, bucket := range mainFirst(o.Buckets, c.Main) {
			gauges := v.bucketGauges(bucket, v.options.Location)
			all[l.ID] = append(all[l.ID], gauges...)
			if i < names {
				for g := range gauges {
					setLimitSource(v, &gauges[g], o, bucket.Resource, c, i == 0)
					v.showGauge(&gauges[g])
				}
				l.Buckets = append(l.Buckets, levelBucket{bucket.Resource, gauges})
			}
		}
		if l.Empty = len(l.Buckets) == 0; i < names {
			b.Levels = append(b.Levels, l)
			if i > 0 {
				b.Parents = append(b.Parents, link{l.ID, l.Link})
			}
		}
	}
	return all
}

// mainFirst returns a sorted copy of the buckets: that of the main resource first, the others by name of the
// resource.
func mainFirst(buckets []admin.Bucket, main string) []admin.Bucket {
	sorted := slices.Clone(buckets)
	slices.SortStableFunc(sorted, func(x, y admin.Bucket) int {
		if (x.Resource == main) != (y.Resource == main) {
			if x.Resource == main {
				return -1
			}
			return 1
		}
		return strings.Compare(x.Resource, y.Resource)
	})
	return sorted
}

// setLimitSource sets g.From to the owner of the limit's source: the entity, else its plan, else everybody, by
// the first that lists the limit. It sets g.Raised to the end of a raise at the entity.
func setLimitSource(v *view, g *gauge, o admin.Owned, resource string, c catalog, own bool) {
	has := func(config admin.LimitConfig) bool {
		return slices.ContainsFunc(config.Limits, func(l dynalimit.Limit) bool { return l.Name == g.Name })
	}
	for _, source := range o.Configs {
		if source.Scope.Resource != "" && source.Scope.Resource != resource {
			continue
		}
		for _, r := range source.Config.Raises {
			if r.Name == g.Name {
				g.Raised = "until " + r.Until.In(v.options.Location).Format("Jan 2, 15:04")
			}
		}
		if has(source.Config) {
			if g.From = o.Entity.ID; own {
				g.From = "this entity"
			}
			return
		}
	}
	for _, source := range c.Plans {
		if o.Entity.Plan != "" && source.Scope.Plan == o.Entity.Plan && (source.Scope.Resource == "" || source.Scope.Resource == resource) && has(source.Config) {
			g.From = "plan " + o.Entity.Plan
			return
		}
	}
	g.From = "everybody"
}

// hiddenLimits returns the limits of less specific sources on the main resource that do not count, as one text.
// They are hidden because a more specific source has limits of its own. It is "" without any, and for an
// unlimited entity.
func hiddenLimits(o admin.Owned, c catalog) string {
	inForce, open, texts := map[string]bool{}, true, []string(nil)
	for _, source := range mainSources(o, c) {
		list := source.Config
		if open && list.Unlimited {
			return ""
		}
		for _, name := range list.Lifted {
			inForce[name] = true
		}
		for _, l := range list.Limits {
			if !open && !inForce[l.Name] {
				texts = append(texts, l.Name+" of "+ownerText(source.Scope))
			}
			inForce[l.Name] = true
		}
		open = open && (len(list.Limits) == 0 || list.Extends)
	}
	return strings.Join(texts, ", ")
}

// mainSources returns the configured sources for an entity on the main resource, the most specific first. For a
// group it leaves out defaults for all resources, which groups do not have.
func mainSources(o admin.Owned, c catalog) []admin.ScopedConfig {
	isGroup := len(c.Models) > 0
	var lists []admin.ScopedConfig
	add := func(all []admin.ScopedConfig, fits func(admin.Scope) bool) {
		for _, source := range all {
			if fits(source.Scope) {
				lists = append(lists, source)
			}
		}
	}
	for _, resource := range []string{c.Main, ""} {
		if resource != "" || !isGroup { // a group has no defaults
			add(o.Configs, func(s admin.Scope) bool { return s.Resource == resource })
		}
	}
	for _, resource := range []string{c.Main, ""} {
		if o.Entity.Plan != "" && (resource != "" || !isGroup) {
			add(c.Plans, func(s admin.Scope) bool { return s.Plan == o.Entity.Plan && s.Resource == resource })
		}
	}
	add(c.Resources, func(s admin.Scope) bool { return s.Resource == c.Main })
	if !isGroup {
		lists = append(lists, admin.ScopedConfig{Scope: admin.Scope{Everyone: true}, Config: c.System})
	}
	return lists
}

// ownerText returns the owner of a source as words: "the plan NAME", "its default" for an entity's, or
// "everybody".
func ownerText(s admin.Scope) string {
	switch {
	case s.Plan != "":
		return "the plan " + s.Plan
	case s.Entity != "":
		return "its default"
	}
	return "everybody"
}

// addChildren appends a page of the entity's children, with their states, to b, and the link to the next page.
// It adds nothing without children.
func addChildren(ctx context.Context, v *view, c catalog, b *entityBody, f forest) error {
	after := v.query.Get("after")
	children, err := v.readChildren(ctx, b.ID, after)
	if err != nil || len(children) == 0 {
		return err
	}
	if len(children) == listLength {
		b.MoreChildren = v.pageHref("entity/"+url.PathEscape(b.ID), url.Values{"after": {children[len(children)-1].ID}})
	}
	below, err := v.readForest(ctx, c, append(slices.Clone(children), forestRecords(f)...))
	if err != nil {
		return err
	}
	for _, child := range children {
		b.Children = append(b.Children, v.newRow(below, child))
	}
	return nil
}

// forestRecords returns the records of a forest, in any order, so that they are not read again.
func forestRecords(f forest) (all []admin.Entity) {
	for _, e := range f.records {
		all = append(all, e)
	}
	return all
}

// addUsage adds the charts and the table of closed usage to b, and today's open day from a daily quota. Without
// closed usage, or for an entity without any limit in use, it adds no charts.
func addUsage(ctx context.Context, v *view, c catalog, b *entityBody, chain []admin.Owned, gauges []gauge) error {
	closed, err := v.closedTo(ctx)
	if err != nil || closed.IsZero() {
		return err
	}
	b.HasUsage, b.CSV = true, v.pageHref("entity/"+url.PathEscape(b.ID)+"/usage.csv", nil)
	today := midnight(v.now())
	lastDay := today.AddDate(0, 0, -1)
	if closed.Before(today) {
		lastDay = midnight(closed).AddDate(0, 0, -1)
	}
	days, err := entityUsage(ctx, v, chain, "", aggregator.Day, lastDay.AddDate(0, 0, 2-shownDays), lastDay.AddDate(0, 0, 1))
	if err != nil {
		return err
	}
	lastHour := closed.Add(-time.Hour)
	hours, err := entityUsage(ctx, v, chain, c.Main, aggregator.Hour, lastHour.Add((1-shownHours)*time.Hour), closed)
	if err != nil {
		return err
	}
	dayStarts, hourStarts := windowsBack(aggregator.Day, lastDay, shownDays-1), windowsBack(aggregator.Hour, lastHour, shownHours)
	limit := chartedLimit(gauges, c.Main)
	resource, name := c.Main, ""
	if limit != nil {
		name = limit.Name
	} else if name, resource = firstUsed(days, hours); name == "" {
		return nil
	}
	money := v.isMoney(name)
	open := limit != nil && limit.window == "day" && closed.After(lastDay)
	line, charted := int64(0), days
	if open {
		dayStarts, line = append(dayStarts, today), limit.capacity
		charted = append(slices.Clone(days), hoursOfDay(hours, today)...)
	}
	stacks := stackModels(charted, resource, name, money, dayStarts)
	if open {
		stacks = addOpenUse(stacks, limit.used)
	}
	word := "Use"
	if money {
		word = "Spend"
	}
	b.Days = newChart(word+" a day", "Day", dayLabels(dayStarts), stacks, money, line, open)
	b.Hours = newChart(word+" an hour", "Hour", hourLabels(hourStarts, v.options.Location), stackModels(hours, resource, name, money, hourStarts), money, 0, false)
	b.Usage = usageRows(v, days, hours, today)
	return nil
}

// chartedLimit returns the gauge to chart of the main bucket. It prefers the daily quota of money, then any
// money, then any daily quota. It is nil without a gauge, and points into gauges.
func chartedLimit(gauges []gauge, main string) *gauge {
	of := func(fits func(gauge) bool) *gauge {
		return findGauge(gauges, func(g gauge) bool { return strings.Contains(g.Key, " "+main+" ") && fits(g) })
	}
	for _, fits := range []func(gauge) bool{
		func(g gauge) bool { return g.money && g.window == "day" }, func(g gauge) bool { return g.money },
		func(g gauge) bool { return g.window == "day" }, func(gauge) bool { return true },
	} {
		if g := of(fits); g != nil {
			return g
		}
	}
	return nil
}

// firstUsed returns the first limit with usage in the lists and its resource, and "" twice without one.
func firstUsed(lists ...[]aggregator.Usage) (limit, resource string) {
	for _, u := range slices.Concat(lists...) {
		for _, l := range u.Limits {
			return l.Limit, u.Resource
		}
	}
	return "", ""
}

// entityUsage returns the closed usage of the first entity of a chain, on one resource or on all for "". A
// visitor of a subtree gets only windows in which it and the levels up to the subtree's top ended with their
// present parents. A level without usage in a window counts if its record never changed.
func entityUsage(ctx context.Context, v *view, chain []admin.Owned, resource string, w aggregator.Window, from, to time.Time) ([]aggregator.Usage, error) {
	var own []aggregator.Usage
	for i, level := range chain {
		e := level.Entity
		all, err := v.readUsage("entity "+e.ID+" on "+resource, w, from, to, func(q aggregator.Query) iter.Seq2[aggregator.Usage, error] {
			q.Resource = resource
			return v.usage.Entity(ctx, e.ID, q)
		})
		if err != nil {
			return nil, err
		}
		if i == 0 {
			own = slices.Clone(all)
		}
		if v.access.Under == "" || e.ID == v.access.Under {
			return own, nil
		}
		inside := map[time.Time]bool{}
		for _, u := range all {
			before, known := inside[u.Start]
			inside[u.Start] = (before || !known) && u.Parent == e.ParentID
		}
		own = slices.DeleteFunc(own, func(u aggregator.Usage) bool {
			is, known := inside[u.Start]
			return !is && (known || e.Version != 1)
		})
	}
	return own, nil
}

// usageRows returns the usage summed by resource and limit, and by model too: of today's closed hours, and of
// the shown days. Amounts are texts, dollars for money.
func usageRows(v *view, days, hours []aggregator.Usage, today time.Time) (rows []usageRow) {
	type sums struct{ today, days int64 }
	of, order := map[[3]string]*sums{}, [][3]string(nil)
	sum := func(key [3]string) *sums {
		if of[key] == nil {
			of[key], order = &sums{}, append(order, key)
		}
		return of[key]
	}
	add := func(u aggregator.Usage, to func(*sums) *int64) {
		for _, l := range u.Limits {
			*to(sum([3]string{u.Resource, l.Limit})) += l.Consumed / milli
			for model, n := range l.ByModel {
				*to(sum([3]string{u.Resource, l.Limit, model})) += n / milli
			}
		}
	}
	for _, u := range days {
		add(u, func(s *sums) *int64 { return &s.days })
	}
	for _, u := range hours {
		if !u.Start.Before(today) {
			add(u, func(s *sums) *int64 { return &s.today })
		}
	}
	slices.SortFunc(order, func(x, y [3]string) int { return slices.Compare(x[:], y[:]) })
	for _, key := range order {
		money := v.isMoney(key[1])
		rows = append(rows, usageRow{key[0], key[1], key[2], formatAmount(money, of[key].today), formatAmount(money, of[key].days)})
	}
	return rows
}

// escapeFormula returns a text that no spreadsheet reads as a formula. It prefixes a text that begins with =,
// +, -, @, tab or return with an apostrophe, and returns others unchanged.
func escapeFormula(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
