package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/ledger"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// usageTopCmd ranks the entities of a resource.
type usageTopCmd struct {
	Resource string `required:"" help:"The resource." placeholder:"NAME"`
	Of       string `help:"Only by this limit. Default: by each." placeholder:"LIMIT"`
	Most     int    `help:"At most so many entities of each limit; 0 for all." default:"20"`
	byModel
	period
}

// Validate refuses a missing --resource and a negative --most.
func (c usageTopCmd) Validate() error {
	if c.Resource == "" {
		return errors.New("no resource is named: give one with --resource; 'dynalimit usage list' shows all of them")
	}
	if c.Most < 0 {
		return fmt.Errorf("--most %d is no number of entities: give 0 or more", c.Most)
	}
	return nil
}

// topUsage is a ranking as JSON.
type topUsage struct {
	Resource string     `json:"resource"`
	From     time.Time  `json:"from"`
	To       time.Time  `json:"to"`
	Limits   []topLimit `json:"limits"`
}

type topLimit struct {
	Limit    string     `json:"limit"`
	Unit     string     `json:"unit,omitempty"`
	Consumed int64      `json:"consumed_millitokens"`
	Users    int        `json:"entities_all"`
	Entities []topEntry `json:"entities"`
	// Models are given with --by-model.
	Models []ledger.ModelUsage `json:"models,omitempty"`
}

type topEntry struct {
	Entity   string `json:"entity_id"`
	Parent   string `json:"parent_id,omitempty"`
	Plan     string `json:"plan,omitempty"`
	Consumed int64  `json:"consumed_millitokens"`
}

// Run prints the entities that used a resource most in a period, a ranking for each limit. It extends the
// period to whole windows.
func (c usageTopCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	a, err := c.period.parsePeriod(now(ctx), 24*time.Hour)
	if err != nil {
		return badInput("%w", err)
	}
	by := a.widestWindow()
	a = a.wholeWindows(by, now(ctx))
	a.namespace = g.Namespace
	return g.withUsageReader(ctx, out, a.zone, func(_ *dynalimit.Repository, r *aggregator.Reader) error {
		t, err := c.rankUsers(ctx, r, a, aggregator.Query{Resource: c.Resource, From: a.From, To: a.To, Window: by})
		if err != nil {
			return err
		}
		return out.Show(t, func() { c.printRanking(out, a, t) })
	})
}

// rankUsers reads the usage of the resource by every entity and returns the highest users for each limit, or
// for --of only, in millitokens. It also reads the total of the resource. The first error ends it.
func (c usageTopCmd) rankUsers(ctx context.Context, r *aggregator.Reader, a asked, q aggregator.Query) (topUsage, error) {
	top := topUsage{Resource: c.Resource, From: a.From.In(a.zone), To: a.To.In(a.zone), Limits: []topLimit{}}
	var ranking ledger.Ranking
	for u, err := range perEntity(ctx, r, q) {
		if err != nil {
			return top, err
		}
		ranking.Add(u)
	}
	var whole ledger.Book
	if err := addUsage(&whole, r.Resource(ctx, c.Resource, q)); err != nil {
		return top, err
	}
	totals := map[string]ledger.Total{}
	for _, t := range whole.Totals() {
		totals[t.Limit] = t
	}
	for _, limit := range ranking.Limits(c.Resource) {
		if c.Of == "" || limit == c.Of {
			top.Limits = append(top.Limits, c.topOfLimit(limit, totals[limit].LimitUsage, ranking.Of(c.Resource, limit)))
		}
	}
	return top, nil
}

// topOfLimit returns the first --most of ranks, or all for 0, with the limit's total in millitokens and the
// number of all users. With --by-model it adds the total of each model.
func (c usageTopCmd) topOfLimit(name string, total aggregator.LimitUsage, ranks []ledger.Rank) topLimit {
	one := topLimit{Limit: name, Unit: total.Unit, Consumed: total.Consumed, Users: len(ranks), Entities: []topEntry{}}
	if c.ByModel {
		one.Models = ledger.ModelsOf(total)
	}
	if c.Most > 0 && len(ranks) > c.Most {
		ranks = ranks[:c.Most]
	}
	for _, rank := range ranks {
		one.Entities = append(one.Entities, topEntry{rank.Entity, rank.Parent, rank.Plan, rank.Consumed})
	}
	return one
}

// addUsage adds all usage to a book, up to the first error, which it returns.
func addUsage(to *ledger.Book, all usages) error {
	for u, err := range all {
		if err != nil {
			return err
		}
		to.Add(u)
	}
	return nil
}

// printRanking prints the highest users of each limit as bars, with amounts and shares of the total, and the
// number of the other users. Without limits it prints that nothing was used.
func (c usageTopCmd) printRanking(out *term.Output, a asked, t topUsage) {
	if len(t.Limits) == 0 {
		printNothingUsed(out, a)
		return
	}
	fmt.Fprintf(out, "%s, %s\n", out.Bold(term.Plain(c.Resource)), a.Text(a.zone))
	for _, l := range t.Limits {
		fmt.Fprintf(out, "\n%s  %s in total\n", out.Bold(term.Plain(l.Limit)), notation.UsedInUnit(l.Unit, l.Consumed))
		printModels(out, l)
		bars := make([]term.Measure, len(l.Entities))
		amount := 0
		for _, e := range l.Entities {
			amount = max(amount, len(notation.UsedInUnit(l.Unit, e.Consumed)))
		}
		for i, e := range l.Entities {
			text := fmt.Sprintf("%*s %s", amount, notation.UsedInUnit(l.Unit, e.Consumed), shareText(e.Consumed, l.Consumed))
			bars[i] = term.Measure{Name: e.Entity, Text: text, Share: float64(e.Consumed) / float64(max(1, l.Entities[0].Consumed)), Paint: out.Green}
		}
		out.Bars(2, bars)
		if more := l.Users - len(l.Entities); more > 0 {
			fmt.Fprintln(out, out.Dim(fmt.Sprintf("  and %s more: --most 0 shows all", notation.GroupedNumber(int64(more)))))
		}
	}
}

// printModels prints the usage of a limit by model as bars, with amounts and shares of the total. It prints
// nothing without models.
func printModels(out *term.Output, l topLimit) {
	amount := 0
	for _, m := range l.Models {
		amount = max(amount, len(notation.UsedInUnit(l.Unit, m.Consumed)))
	}
	bars := make([]term.Measure, len(l.Models))
	for i, m := range l.Models {
		text := fmt.Sprintf("%*s %s", amount, notation.UsedInUnit(l.Unit, m.Consumed), shareText(m.Consumed, l.Consumed))
		bars[i] = term.Measure{Name: m.Model, Text: text, Share: float64(m.Consumed) / float64(max(1, l.Models[0].Consumed)), Paint: out.Cyan}
	}
	if out.Bars(2, bars); len(bars) > 0 {
		fmt.Fprintln(out)
	}
}

// shareText formats the share of part in sum as a percentage, six columns wide: " 12 %", or " <1 %". It is
// blank unless both are positive.
func shareText(part, sum int64) string {
	if part <= 0 || sum <= 0 {
		return "      "
	}
	share := 100 * float64(part) / float64(sum)
	if share < 1 {
		return "  <1 %"
	}
	return fmt.Sprintf("%4.0f %%", share)
}

// perEntity returns a sequence of the usage of each entity on each resource, or on the query's resource only.
// It reads up to readAtOnce of them concurrently, keeps their order, and ends with the first error.
func perEntity(ctx context.Context, r *aggregator.Reader, q aggregator.Query) usages {
	return func(yield func(aggregator.Usage, error) bool) {
		used, err := r.Used(ctx, q)
		if err != nil {
			yield(aggregator.Usage{}, err)
			return
		}
		for some := range slices.Chunk(used, readAtOnce) {
			found, err := readTogether(ctx, some, func(ctx context.Context, one aggregator.Used) ([]aggregator.Usage, error) {
				of := q
				of.Resource = one.Resource
				return collectAll(r.Entity(ctx, one.Entity, of))
			})
			for _, u := range slices.Concat(found...) {
				if err == nil && !yield(u, nil) {
					return
				}
			}
			if err != nil {
				yield(aggregator.Usage{}, err)
				return
			}
		}
	}
}

// readAtOnce is the number of entities read concurrently.
const readAtOnce = 16

// readTogether calls do for each value concurrently, at most readAtOnce at a time, waits for all, and returns
// the results in order. The first error cancels the context of the others and is returned.
func readTogether[A, B any](ctx context.Context, some []A, do func(context.Context, A) (B, error)) ([]B, error) {
	found := make([]B, len(some))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readAtOnce)
	for i, one := range some {
		group.Go(func() (err error) {
			found[i], err = do(ctx, one)
			return err
		})
	}
	return found, group.Wait()
}
