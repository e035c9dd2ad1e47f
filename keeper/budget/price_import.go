package budget

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/prices"
)

// PriceImport says how a price list is taken.
type PriceImport struct {
	// List is the name that its prices are stored with, 1 to 64 letters, digits, dots,
	// hyphens and underscores, but "catalog": see Price.List. Defaults to the list's Name.
	List string
	// Accept are models whose prices are taken although they are held back, as
	// PriceChange.Model names them. Defaults to none.
	Accept []string
}

// PriceReport is what became of a price list. Models are in the order of their names.
type PriceReport struct {
	// List is the list's name.
	List string `json:"list"`
	// At is when it was looked at, by the keeper's clock.
	At time.Time `json:"at"`
	// Accepted are the prices that were taken; each has its EffectiveFrom.
	Accepted []PriceChange `json:"accepted"`
	// Held are those that were not, each with its reason.
	Held []PriceChange `json:"held_back"`
	// Unchanged are the models of which nothing differs from what is in force.
	Unchanged []string `json:"unchanged"`
	// Skipped are the rows of the list that are no prices a keeper has, and models for which
	// the list says two things or has one price more than can be stored.
	Skipped []prices.Skipped `json:"skipped"`
}

// priceJob is one import, or the review of one.
type priceJob struct {
	list    string
	at      time.Time
	accept  map[string]bool
	listed  prices.Book
	stored  prices.Book // as read at first
	own     priceLayers
	names   []string // models of the list
	skipped []prices.Skipped
	related map[string][]prices.Price // prices by the family of their models

	mu   sync.Mutex
	done map[string]review
}

// newImport reads what an import is compared with.
func (pt *priceTable) newImport(ctx context.Context, list prices.List, how PriceImport) (*priceJob, error) {
	j := &priceJob{
		list: how.List, at: acceptance(pt.desk.now()), own: pt.own, skipped: list.Skipped, accept: map[string]bool{},
		done: map[string]review{},
	}
	if j.list == "" {
		j.list = list.Name
	}
	if problem.CheckName(j.list) != "" {
		return nil, invalid("list", "%q is not a name: give 1 to 64 letters, digits, dots, hyphens and underscores", j.list)
	}
	if j.list == layerCatalog {
		return nil, invalid("list", "%q is what the prices that are built in are stored as; give another name", j.list)
	}
	if len(list.Prices) == 0 {
		return nil, invalid("prices", "the list has no price that can be used; look at what was skipped, and at the providers asked for")
	}
	var err error
	if j.listed, err = prices.NewBook(list.Prices); err != nil {
		return nil, err
	}
	j.names, j.related = slices.Sorted(maps.Keys(j.listed)), pt.own.families(j.at)
	if err := j.acceptAll(how.Accept); err != nil {
		return nil, err
	}
	j.stored, err = pt.stored(ctx, j.names)
	return j, err
}

func (j *priceJob) acceptAll(models []string) error {
	for _, model := range models {
		name, _ := prices.SplitModel(model)
		if _, ok := slices.BinarySearch(j.names, name); !ok {
			return invalid("accept", "%q is not a model of the list; name one that is held back", model)
		}
		j.accept[name] = true
	}
	return nil
}

// listing is what the list says of a model whose stored prices are these.
func (j *priceJob) listing(model string, stored []prices.Price, now time.Time) *listing {
	book, others := prices.Book{model: stored}, prices.Book{}
	for _, name := range prices.ModelNames(model)[1:] {
		book[name], others[name] = j.stored[name], j.becoming(name)
	}
	layers := append(priceLayers{{layerTable, book}}, j.own...)
	l := newListing(model, j.list, j.listed[model], stored, layers, now)
	l.others, l.accept, l.family = others, j.accept[model], j.related[familyOf(model)]
	return l
}

// becoming are the prices of a model that the import is about to store.
func (j *priceJob) becoming(model string) []prices.Price {
	if _, ok := slices.BinarySearch(j.names, model); !ok {
		return j.stored[model]
	}
	return j.listing(model, j.stored[model], j.at).review(j.at).stored
}

// reviewed notes what became of a model.
func (j *priceJob) reviewed(model string, r review) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done[model] = r
}

// report is what was noted.
func (j *priceJob) report() PriceReport {
	report := PriceReport{
		List: j.list, At: j.at, Accepted: []PriceChange{}, Held: []PriceChange{}, Unchanged: []string{},
		Skipped: append([]prices.Skipped{}, j.skipped...),
	}
	for _, name := range j.names {
		r, ok := j.done[name]
		if !ok {
			continue
		}
		report.Accepted, report.Held = append(report.Accepted, r.accepted...), append(report.Held, r.held...)
		report.Skipped = append(report.Skipped, r.skipped...)
		if len(r.accepted) == 0 && len(r.held) == 0 && len(r.skipped) == 0 {
			report.Unchanged = append(report.Unchanged, name)
		}
	}
	return report
}

// importModel stores what a list says of a model. What was read at first is enough to see
// that there is nothing to store.
func (pt *priceTable) importModel(ctx context.Context, by string, j *priceJob, model string) error {
	before := j.stored[model]
	r := j.listing(model, before, j.at).review(j.at)
	var err error
	if r.changed(before) {
		err = pt.desk.commit(ctx, func() (*change, error) {
			return pt.decide(ctx, by, model, func(stored priceRows) priceRows {
				now := acceptance(pt.desk.now())
				r = j.listing(model, stored.prices(), now).review(now)
				return stored.with(r.stored)
			})
		})
	}
	if err == nil {
		j.reviewed(model, r)
	}
	return err
}

// acceptance is when prices accepted at an instant begin: stored times have whole seconds,
// and none lies before.
func acceptance(now time.Time) time.Time {
	at := now.UTC().Truncate(time.Second)
	if at.Before(now) {
		at = at.Add(time.Second)
	}
	return at
}
