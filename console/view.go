package console

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// listEvery and entityEvery are the intervals of polls, in seconds.
const listEvery, entityEvery = 15, 5

// page is the input of the layout's template.
type page struct {
	// Title is the heading, Nav the current entry of the navigation, and Body the input of the page's template.
	Title, Nav string
	Crumbs     []link
	Body       any
	// Every is the interval of polls in seconds; 0 for a page without live values. Poll is their address.
	Every int
	Poll  string
	// Notes are remarks above the page, and Acts the links to changes.
	Notes []note
	Acts  []act
	// Status is the status of the answer; 0 for 200.
	Status int

	Prefix, Brand, Table, Where, Principal, Zone string
	Style, Script, Icon, Accent, Logo            string
	// Limited means that the visitor sees a part of the table, Doctor that there is such a page, Changes that the
	// visitor may change entities.
	Limited, Doctor, Changes bool
}

// act is a link to the form of a change.
type act struct{ Text, Href, Class string }

type link struct{ Text, Href string }

type note struct{ Class, Title, Text, Command string }

// errMissing is a page that does not exist, or that the visitor may not see.
var errMissing = errors.New("not found")

// view is one request: the visit with the handler and the query.
type view struct {
	visit
	options *Options
	table   string
	query   url.Values
	cells   []cell
}

// cell is a live value of a page.
type cell struct {
	// Key names it, as data-k does on the page.
	Key string `json:"k"`
	// Text is its text. Percent and Class are those of a gauge.
	Text    string `json:"t"`
	Percent int    `json:"p"`
	Class   string `json:"c,omitempty"`
}

// staleText returns a text with the age of the oldest shown value, if the table did not answer or the read
// units were used up. It is "" if all values are new.
func (v *view) staleText() string {
	if v.stale.IsZero() {
		return ""
	}
	return "What is below was read at " + v.stale.In(v.options.Location).Format("15:04:05") + " and is " + formatSpan(v.now().Sub(v.stale)) + " old."
}

// entityHref returns the address of an entity's page, with the id escaped.
func (v *view) entityHref(id string) string {
	return v.options.Prefix + "entity/" + url.PathEscape(id)
}

// pageHref returns the address of a page below the console's prefix, with parameters.
func (v *view) pageHref(path string, query url.Values) string {
	if len(query) == 0 {
		return v.options.Prefix + path
	}
	return v.options.Prefix + path + "?" + query.Encode()
}

// setPolls sets the interval of a page's polls, in seconds, and their address: path with the parameters of this
// request.
func (p *page) setPolls(v *view, path string, every int) {
	query := url.Values{"poll": {"1"}}
	for name, values := range v.query {
		if name != "poll" {
			query[name] = values
		}
	}
	p.Every, p.Poll = every, v.pageHref(path, query)
}

// showGauge adds a gauge's cells to v.cells, the live values of a poll, and returns the gauge. nil adds nothing
// and stays nil.
func (v *view) showGauge(g *gauge) *gauge {
	if g != nil {
		v.cells = append(v.cells, cell{"f " + g.Key, "", g.Percent, g.Class}, cell{Key: "u " + g.Key, Text: g.Used})
	}
	return g
}

// readForest returns the inputs of entities' states: their records and their parents', up to eight levels, with
// buckets and blocks on the main resource. It takes the given records without reading them. Without a main
// resource it reads no buckets.
func (v *view) readForest(ctx context.Context, c catalog, entities []admin.Entity) (forest, error) {
	f := forest{records: map[string]admin.Entity{}, buckets: map[string]admin.Bucket{}, blocked: map[string]bool{}, catalog: c, under: v.access.Under}
	ids := make([]string, 0, len(entities))
	wanted := make([]string, 0, len(entities))
	for _, e := range entities {
		if _, known := f.records[e.ID]; !known {
			f.records[e.ID] = e
			ids, wanted = append(ids, e.ID), append(wanted, e.ID)
		}
	}
	for range mostLevels - 1 {
		var parents []string
		for _, id := range wanted {
			e := f.records[id]
			if _, known := f.records[e.ParentID]; e.ParentID != "" && !e.Detached && !known && !slices.Contains(parents, e.ParentID) {
				parents = append(parents, e.ParentID)
			}
		}
		if len(parents) == 0 {
			break
		}
		found, err := v.readRecords(ctx, parents)
		if err != nil {
			return f, err
		}
		for id, e := range found {
			f.records[id] = e
		}
		ids, wanted = append(ids, parents...), parents
	}
	if c.Main == "" || len(ids) == 0 {
		return f, nil
	}
	var err error
	if f.blocked, err = v.readBlocks(ctx, c.Main, ids); err != nil {
		return f, err
	}
	f.buckets, err = v.readBuckets(ctx, c.Main, ids)
	return f, err
}

// newRow returns the row of an entity of a forest: its state and its gauges of a day, a month and the largest
// rate. Quotas of money come first. It also adds them to v.cells, the live values of a poll.
func (v *view) newRow(f forest, e admin.Entity) row {
	gauges := func(id string) []gauge { return v.bucketGauges(f.buckets[id], v.options.Location) }
	own := gauges(e.ID)
	r := row{ID: e.ID, Name: e.Name, Plan: e.Plan, Parent: e.ParentID, Link: v.entityHref(e.ID)}
	window := func(name string) *gauge {
		if g := findGauge(own, func(g gauge) bool { return g.window == name && g.money }); g != nil {
			return g
		}
		return findGauge(own, func(g gauge) bool { return g.window == name })
	}
	r.Day, r.Month = v.showGauge(window("day")), v.showGauge(window("month"))
	if r.Day == nil {
		r.Day = v.showGauge(findGauge(own, func(g gauge) bool { return g.quota && g.window != "month" }))
	}
	for i := range own {
		if !own[i].quota && (r.Rate == nil || own[i].capacity > r.Rate.capacity) {
			r.Rate = &own[i]
		}
	}
	v.showGauge(r.Rate)
	r.State, r.Class = f.state(e.ID, gauges)
	v.cells = append(v.cells, cell{Key: "s " + e.ID, Text: r.State, Class: r.Class})
	return r
}

// now returns the time by Options.Now.
func (v *view) now() time.Time { return v.reads.now() }

// readList returns the entities of a list by read, shared by visitors under key for 3 minutes. A visitor of a
// subtree shares it for 2 s only: an older one may have an entity that left the subtree.
func (v *view) readList(key string, read func() ([]admin.Entity, error)) ([]admin.Entity, error) {
	keep := keepLists
	if v.access.Under != "" {
		keep = keepBuckets
	}
	return fetch(&v.visit, "list "+key, keep, 4, read)
}

// readChildren returns a page of an entity's children after the id after, at most listLength.
func (v *view) readChildren(ctx context.Context, id, after string) ([]admin.Entity, error) {
	return v.readList("children "+id+" "+after, func() ([]admin.Entity, error) {
		return v.admin.Entities.ChildrenAfter(ctx, id, after, listLength)
	})
}

// isInvalid reports whether an error is, or wraps, a *ValidationError.
func isInvalid(err error) bool {
	var bad *dynalimit.ValidationError
	return errors.As(err, &bad)
}
