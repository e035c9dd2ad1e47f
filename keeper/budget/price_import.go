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

// PriceImport configures an import of a price list.
type PriceImport struct {
	// List is the name stored with the prices: 1 to 64 letters, digits, dots, hyphens and
	// underscores, except "catalog". See Price.List. Defaults to the list's Name.
	List string
	// Accept lists models, named as in PriceChange.Model, whose prices to take although the
	// review holds them back. Defaults to none.
	Accept []string
}

// PriceReport is the result of importing a price list. Models are in alphabetical order.
type PriceReport struct {
	// List is the list's name.
	List string `json:"list"`
	// At is the time of the review, by the keeper's clock.
	At time.Time `json:"at"`
	// Accepted are the accepted prices, each with its EffectiveFrom.
	Accepted []PriceChange `json:"accepted"`
	// Held are the prices held back, each with its reason.
	Held []PriceChange `json:"held_back"`
	// Unchanged are the models whose prices in the list equal those in force.
	Unchanged []string `json:"unchanged"`
	// Skipped are rows that a keeper cannot use as prices, models with two prices in the list,
	// and models with more prices than can be stored.
	Skipped []prices.Skipped `json:"skipped"`
}

// priceJob is one import or review.
type priceJob struct {
	list    string
	at      time.Time
	accept  map[string]bool
	listed  prices.Book
	stored  prices.Book // as first read
	own     priceLayers
	names   []string // models in the list
	skipped []prices.Skipped
	related map[string][]prices.Price // prices by model family

	mu   sync.Mutex
	done map[string]review
}

// newImport returns the job that imports or reviews a price list; it reads the stored prices of the list's
// models and writes nothing. An empty list, a bad name, or an accepted model outside the list is a
// *fault.ValidationError.
func (pt *priceTable) newImport(ctx context.Context, list prices.List, how PriceImport) (*priceJob, error) {
	j := &priceJob{
		list: how.List, at: acceptedFrom(pt.desk.now()), own: pt.own, skipped: list.Skipped, accept: map[string]bool{},
		done: map[string]review{},
	}
	if j.list == "" {
		j.list = list.Name
	}
	if problem.CheckName(j.list) != "" {
		return nil, invalid("list", "%q is not a name: give 1 to 64 letters, digits, dots, hyphens and underscores", j.list)
	}
	if j.list == layerCatalog {
		return nil, invalid("list", "%q is the name of the built-in prices; give another name", j.list)
	}
	if len(list.Prices) == 0 {
		return nil, invalid("prices", "the list has no usable price; check the skipped rows and the requested providers")
	}
	var err error
	if j.listed, err = prices.NewBook(list.Prices); err != nil {
		return nil, err
	}
	j.names, j.related = slices.Sorted(maps.Keys(j.listed)), pt.own.families(j.at)
	if err := j.acceptAll(how.Accept); err != nil {
		return nil, err
	}
	j.stored, err = pt.storedPrices(ctx, j.names)
	return j, err
}

// acceptAll marks the models in j, so that the review accepts their prices where it would hold them back. A
// model outside the list is a *fault.ValidationError.
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

// newListing returns the facts for the review of a list's model: its listed and stored prices, those of related
// models, and the caller's acceptance. It decides, reads and stores nothing.
func (j *priceJob) newListing(model string, stored []prices.Price, now time.Time) *listing {
	book, others := prices.Book{model: stored}, prices.Book{}
	for _, name := range prices.ModelNames(model)[1:] {
		book[name], others[name] = j.stored[name], j.pricesAfter(name)
	}
	layers := append(priceLayers{{layerTable, book}}, j.own...)
	l := newListing(model, j.list, j.listed[model], stored, layers, now)
	l.others, l.accept, l.family = others, j.accept[model], j.related[familyOf(model)]
	return l
}

// pricesAfter returns the stored prices of a model after the import: those of its review if the list has the
// model, else the present ones. It writes nothing.
func (j *priceJob) pricesAfter(model string) []prices.Price {
	if _, ok := slices.BinarySearch(j.names, model); !ok {
		return j.stored[model]
	}
	return j.newListing(model, j.stored[model], j.at).reviewList(j.at).stored
}

// recordReview stores the review r of a model in the job, for buildReport, in place of an earlier one. Several
// goroutines may call it. It stores no prices.
func (j *priceJob) recordReview(model string, r review) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.done[model] = r
}

// buildReport returns the report about the models that recordReview has recorded, sorted by name. A model
// without accepted, held or skipped prices is listed as unchanged. It must not run beside recordReview.
func (j *priceJob) buildReport() PriceReport {
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

// importModel reviews a list's prices of a model, stores the accepted ones with an audit event by the principal
// by, and records the review. If nothing changes, it writes nothing. After an error it records nothing.
func (pt *priceTable) importModel(ctx context.Context, by string, j *priceJob, model string) error {
	before := j.stored[model]
	r := j.newListing(model, before, j.at).reviewList(j.at)
	var err error
	if r.hasChanged(before) {
		err = pt.desk.commit(ctx, func() (*change, error) {
			return pt.decidePrices(ctx, by, model, func(stored priceRows) priceRows {
				now := acceptedFrom(pt.desk.now())
				r = j.newListing(model, stored.prices(), now).reviewList(now)
				return stored.withPrices(r.stored)
			})
		})
	}
	if err == nil {
		j.recordReview(model, r)
	}
	return err
}

// acceptedFrom returns now in UTC, rounded up to a full second, the precision of stored times. Prices that an
// import accepts start then.
func acceptedFrom(now time.Time) time.Time {
	at := now.UTC().Truncate(time.Second)
	if at.Before(now) {
		at = at.Add(time.Second)
	}
	return at
}
