package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// window is the flag with the length of the sums.
type window struct {
	By aggregator.Window `help:"The length of a sum: hour, day or month." enum:"hour,day,month" default:"day"`
}

// defaultPeriod returns the default period for the window: a day for hours, a year for months, else
// a week.
func (w window) defaultPeriod() time.Duration {
	switch w.By {
	case aggregator.Hour:
		return 24 * time.Hour
	case aggregator.Month:
		return 366 * 24 * time.Hour
	case aggregator.Day:
	}
	return 7 * 24 * time.Hour
}

// whose is the flags that select usage.
type whose struct {
	Entity     string `help:"Usage of this entity itself." placeholder:"ID" xor:"whose"`
	ChildrenOf string `help:"Usage of the children of this entity." placeholder:"ID" xor:"whose"`
	Plan       string `help:"Usage of the entities on this plan." placeholder:"NAME" xor:"whose"`
	Resource   string `help:"Only of this resource. Default: of all." placeholder:"NAME"`
}

// Validate refuses an invalid --entity or --children-of.
func (w whose) Validate() error {
	for flag, id := range map[string]string{"--entity": w.Entity, "--children-of": w.ChildrenOf} {
		if id == "" {
			continue
		}
		if err := (admin.Entity{ID: id}).Validate(); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

// describe names the selected entities for a title, such as "of key-1" or "in total".
func (w whose) describe() string {
	switch {
	case w.Entity != "":
		return "of " + w.Entity
	case w.ChildrenOf != "":
		return "of the children of " + w.ChildrenOf
	case w.Plan != "":
		return "of the plan " + w.Plan
	}
	return "in total"
}

// usages is a sequence of usage.
type usages = iter.Seq2[aggregator.Usage, error]

// findUsage returns a sequence of the usage of the entity, children, plan or resource of the flags, in the
// period and windows of q. Without any it yields each resource in turn. It reads during the iteration.
func (w whose) findUsage(ctx context.Context, r *aggregator.Reader, q aggregator.Query) usages {
	q.Resource = w.Resource
	switch {
	case w.Entity != "":
		return r.Entity(ctx, w.Entity, q)
	case w.ChildrenOf != "":
		return r.Children(ctx, w.ChildrenOf, q)
	case w.Plan != "":
		return r.Plan(ctx, w.Plan, q)
	case w.Resource != "":
		return r.Resource(ctx, w.Resource, q)
	}
	return perResource(ctx, r, q)
}

// perResource returns a sequence of the total usage of each used resource in the period of q, one resource
// after the other. It reads during the iteration, and ends with the first error.
func perResource(ctx context.Context, r *aggregator.Reader, q aggregator.Query) usages {
	return func(yield func(aggregator.Usage, error) bool) {
		used, err := r.Used(ctx, q)
		if err != nil {
			yield(aggregator.Usage{}, err)
			return
		}
		before := ""
		for _, one := range used {
			if one.Resource == before {
				continue
			}
			before = one.Resource
			for u, err := range r.Resource(ctx, one.Resource, q) {
				if !yield(u, err) || err != nil {
					return
				}
			}
		}
	}
}

// withUsageReader opens the table and a reader of its stored usage, and calls run with both. Days begin at
// midnight in zone. It adds advice to errors, and fails if the namespace is not registered.
func (g *globals) withUsageReader(ctx context.Context, out *term.Output, zone *time.Location, run func(*dynalimit.Repository, *aggregator.Reader) error) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		client, err := g.connectOptions(ctx).Client(ctx)
		if err != nil {
			return err
		}
		reader, err := aggregator.NewReader(client, g.Table, &aggregator.ReaderOptions{Namespace: g.Namespace, Location: zone, Began: g.tableCreated(ctx), Now: clockOf(ctx)})
		if err != nil {
			return err
		}
		return run(repo, reader)
	})
}

// printNothingUsed prints that the period a has no known usage, with possible reasons.
func printNothingUsed(out *term.Output, a asked) {
	fmt.Fprintf(out, "Nothing was used, as far as is known: %s.\n", a.Text(a.zone))
	fmt.Fprintln(out, out.Dim("Usage comes from the table's stream: 'dynalimit tail' or the Lambda has to run. 'dynalimit doctor' says whether one does."))
	if a.namespace == "" {
		fmt.Fprintln(out, out.Dim("Each namespace has usage of its own: 'dynalimit namespace list' names them, --namespace shows that of one."))
	}
}
