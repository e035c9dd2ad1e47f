package console

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/dynalimit/dynalimit/admin"
)

type entities struct {
	Title, Query, Group string
	Rows                []row
	Next                string
	All                 bool
	Found               string
	Unknown             string
	// Cut means that rows are left out.
	Cut bool
}

// listLength is the length of a page of entities: with its parents, a poll of it each 15 s stays within 120 read units a
// minute.
const listLength = 40

// entitiesPage returns the page of entities: the tree from its tops, or the ids that begin with the query's
// text. At most 40 rows show, with links to more.
func entitiesPage(ctx context.Context, v *view) (*page, string, error) {
	p := &page{Title: "Entities", Nav: "entities"}
	p.setPolls(v, "entities", listEvery)
	c, err := v.readCatalog(ctx, v.options.Resource)
	if err != nil {
		return nil, "", err
	}
	b := &entities{Query: v.query.Get("q"), Group: c.Main, All: v.query.Has("all")}
	var listed []listedEntity
	if b.Query != "" || b.All {
		listed, err = searchEntities(ctx, v, b)
	} else {
		listed, err = openTree(ctx, v, b)
	}
	if err != nil {
		return nil, "", err
	}
	asked := make([]admin.Entity, len(listed))
	for i, l := range listed {
		asked[i] = l.Entity
	}
	f, err := v.readForest(ctx, c, asked)
	if err != nil {
		return nil, "", err
	}
	for _, l := range listed {
		r := v.newRow(f, l.Entity)
		r.Depth, r.Toggle, r.Open, r.More = l.depth, l.toggle, l.open, l.more
		b.Rows = append(b.Rows, r)
	}
	p.Body = b
	return p, "entities", nil
}

type listedEntity struct {
	admin.Entity
	depth        int
	toggle, more string
	open         bool
}

// searchEntities returns the entities with ids that begin with the query, from the one after the parameter
// "after" on, at most listLength. It sets b.Found, b.Next and, if nothing was found, b.Unknown. An invalid
// query finds nothing, without an error.
func searchEntities(ctx context.Context, v *view, b *entities) ([]listedEntity, error) {
	after := v.query.Get("after")
	found, err := fetch(&v.visit, "list search "+b.Query+" "+after, keepLists, 33, func() ([]admin.Entity, error) {
		return v.admin.Entities.Search(ctx, b.Query, after, listLength)
	})
	if err != nil {
		if isInvalid(err) {
			b.Found = "No id begins like that: ids have letters, digits and _ . - : @."
			return nil, nil
		}
		return nil, err
	}
	if b.Query != "" && len(found) == 0 {
		b.Unknown = v.entityHref(b.Query)
	}
	if len(found) == listLength {
		q := url.Values{"after": {found[len(found)-1].ID}}
		if b.Query != "" {
			q.Set("q", b.Query)
		} else {
			q.Set("all", "1")
		}
		b.Next = v.pageHref("entities", q)
	}
	b.Found = fmt.Sprintf("%d found.", len(found))
	if b.Next != "" {
		b.Found = fmt.Sprintf("%d found, and more.", len(found))
	}
	var listed []listedEntity
	for _, e := range found {
		listed = append(listed, listedEntity{Entity: e})
	}
	return listed, nil
}

const (
	// mostOpen bounds the opened entities of a tree, and mostOpened how many tops open by themselves.
	mostOpen, mostOpened = 8, 4
)

// openTree returns the tops, and below each opened entity its children, in the order of rows. Up to four tops
// open by themselves. Without tops it sets b.All and returns all entities, as searchEntities does.
func openTree(ctx context.Context, v *view, b *entities) ([]listedEntity, error) {
	after := v.query.Get("after")
	tops, err := v.readList("tops after "+after, func() ([]admin.Entity, error) { return v.admin.Entities.Tops(ctx, after, listLength) })
	if err != nil {
		return nil, err
	}
	if len(tops) == 0 && after == "" {
		b.All = true
		return searchEntities(ctx, v, b)
	}
	if len(tops) == listLength {
		b.Next = v.pageHref("entities", url.Values{"after": {tops[len(tops)-1].ID}})
	}
	open := v.query["open"]
	if !v.query.Has("open") && len(tops) <= mostOpened {
		for _, e := range tops {
			open = append(open, e.ID)
		}
	}
	open = open[:min(len(open), mostOpen)]
	t := tree{v: v, b: b, open: open, after: after}
	for _, e := range tops {
		if err := t.listEntity(ctx, e, 0); err != nil {
			return nil, err
		}
	}
	return t.listed, nil
}

// tree lists entities with the children of the opened ones.
type tree struct {
	v      *view
	b      *entities
	open   []string
	after  string
	listed []listedEntity
}

// listEntity appends an entity to t.listed, and its children if it is open, down to mostLevels. If the page is
// full, it sets b.Cut and appends nothing. Children are read from the table or the shared cache.
func (t *tree) listEntity(ctx context.Context, e admin.Entity, depth int) error {
	at := len(t.listed)
	if at >= listLength {
		t.b.Cut = true
		return nil
	}
	is := slices.Contains(t.open, e.ID)
	t.listed = append(t.listed, listedEntity{Entity: e, depth: depth, open: is})
	if depth >= mostLevels {
		return nil
	}
	t.listed[at].toggle = t.v.pageHref("entities", toggleEntity(t.open, e.ID, t.after))
	if !is {
		return nil
	}
	children, err := t.v.readChildren(ctx, e.ID, "")
	if err != nil {
		return err
	}
	if len(children) == listLength {
		t.listed[at].more = t.v.entityHref(e.ID)
	}
	if len(children) == 0 {
		t.listed[at].toggle = ""
	}
	for _, child := range children {
		if err := t.listEntity(ctx, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// toggleEntity returns the query parameters of a tree with the entity id opened if it was closed, or closed. It
// does not change open.
func toggleEntity(open []string, id, after string) url.Values {
	next := slices.Clone(open)
	if i := slices.Index(next, id); i >= 0 {
		next = slices.Delete(next, i, i+1)
	} else {
		next = append(next, id)
	}
	if len(next) == 0 {
		next = []string{""}
	}
	q := url.Values{"open": next}
	if after != "" {
		q.Set("after", after)
	}
	return q
}
