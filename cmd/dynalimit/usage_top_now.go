package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// topNow is how much of a resource is used now, for programs.
type topNow struct {
	Resource string        `json:"resource"`
	At       time.Time     `json:"at"`
	Limits   []topNowLimit `json:"limits"`
}

type topNowLimit struct {
	Limit     string        `json:"limit"`
	Used      int64         `json:"used"`
	Burst     int64         `json:"burst"`
	Remaining int64         `json:"remaining"`
	Users     int           `json:"entities_all"`
	Entities  []topNowEntry `json:"entities"`
}

type topNowEntry struct {
	Entity    string `json:"entity_id"`
	Parent    string `json:"parent_id,omitempty"`
	Used      int64  `json:"used"`
	Burst     int64  `json:"burst"`
	Remaining int64  `json:"remaining"`
}

// showNow shows how much of the resource is used now, and by whom.
func (c usageTopCmd) showNow(ctx context.Context, out *term.Output, repo *dynalimit.Repository) error {
	capacity, err := repo.ResourceCapacity(ctx, c.Resource)
	if err != nil {
		return err
	}
	t := topNow{c.Resource, now(ctx).UTC(), []topNowLimit{}}
	for _, l := range capacity.Limits {
		if c.Of == "" || l.Name == c.Of {
			t.Limits = append(t.Limits, c.limitNow(l, capacity.Entities))
		}
	}
	return out.Show(t, func() { c.printNow(out, t) })
}

// limitNow is the ranking by one limit.
func (c usageTopCmd) limitNow(of dynalimit.LimitCapacity, entities []dynalimit.EntityCapacity) topNowLimit {
	one := topNowLimit{of.Name, of.Used, of.Burst, of.Remaining, 0, []topNowEntry{}}
	for _, e := range entities {
		for _, l := range e.Limits {
			if l.Name == of.Name {
				one.Entities = append(one.Entities, topNowEntry{e.EntityID, e.ParentID, l.Used, l.Burst, l.Remaining})
			}
		}
	}
	slices.SortFunc(one.Entities, func(a, b topNowEntry) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Entity, b.Entity))
	})
	if one.Users = len(one.Entities); c.Most > 0 && one.Users > c.Most {
		one.Entities = one.Entities[:c.Most]
	}
	return one
}

// printNow shows it to a person.
func (c usageTopCmd) printNow(out *term.Output, t topNow) {
	if len(t.Limits) == 0 {
		fmt.Fprintf(out, "No buckets of %s: a bucket is made by the first call.\n", term.Plain(c.Resource))
		return
	}
	fmt.Fprintf(out, "%s, now\n", out.Bold(term.Plain(c.Resource)))
	for _, l := range t.Limits {
		fmt.Fprintf(out, "\n%s  %s of %s used in total\n", out.Bold(term.Plain(l.Limit)), notation.Number(l.Used), notation.Number(l.Burst))
		bars := make([]term.Measure, len(l.Entities))
		for i, e := range l.Entities {
			bars[i] = term.Measure{
				Name: e.Entity, Text: fmt.Sprintf("%s of %s", notation.Number(e.Used), notation.Number(e.Burst)),
				Share: float64(e.Used) / float64(max(1, e.Burst)), Paint: out.Green,
			}
			if e.Remaining <= 0 {
				bars[i].Paint = out.Red
			}
		}
		out.Bars(2, bars)
		printMore(out, l.Users-len(l.Entities))
	}
}

// printMore says how many are not shown.
func printMore(out *term.Output, more int) {
	if more > 0 {
		fmt.Fprintln(out, out.Dim(fmt.Sprintf("  and %s more: --most 0 shows all", notation.Number(int64(more)))))
	}
}
