package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/live"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// topCmd shows the fullest buckets.
type topCmd struct {
	Resource string     `help:"The fullest buckets of this resource; with --entity, only those." placeholder:"NAME"`
	Entity   []string   `help:"The buckets of this entity, and of its children. May be repeated." placeholder:"ID" sep:"none"`
	Ask      []string   `help:"Show when this would fit, NAME=N, such as rpm=1. May be repeated." placeholder:"AMOUNT" sep:"none"`
	Sort     live.Order `help:"Sort by: fullest, busiest or name." enum:"fullest,busiest,name" default:"fullest"`
	Most     int        `help:"Show at most so many buckets. Of --entity, and by name, no more are read." default:"1000"`
	watch
}

// Validate refuses --most below 1, malformed amounts of --ask, and a --watch below a second.
func (c topCmd) Validate() error {
	if c.Most < 1 {
		return fmt.Errorf("--most is %d: give at least 1", c.Most)
	}
	if _, err := notation.ParseAmounts(c.Ask); err != nil {
		return err
	}
	return c.watch.Validate()
}

// seen is a reading as JSON.
type seen struct {
	At        time.Time  `json:"at"`
	Resources []string   `json:"resources,omitempty"`
	Limits    []live.Row `json:"limits"`
	Buckets   int        `json:"buckets"`
	Cut       bool       `json:"cut"`
	Read      int        `json:"buckets_read,omitempty"`
	ReadUnits float64    `json:"read_units"`
}

// Run prints a row for each limit of the fullest or busiest buckets, as --sort says, once or with --watch
// repeatedly. Without --resource and --entity it lists the resources. --ask adds the time until those amounts
// fit; nothing is taken.
func (c topCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	asked, err := notation.ParseAmounts(c.Ask)
	if err != nil {
		return badInput("%w", err)
	}
	return g.viewBuckets(ctx, out, func(repo *dynalimit.Repository, meter *live.Meter) error {
		reader := &live.Reader{Admin: admin.New(repo), Meter: meter, Most: c.Most, Order: c.Sort, Told: c.progressPrinter(ctx, out), Now: func() time.Time { return now(ctx) }}
		reader.Used = func(ctx context.Context) ([]string, error) { return g.resourcesOfBuckets(ctx, meter, c.Most) }
		what, before := live.What{Resource: c.Resource, Entities: c.Entity}, live.Counts{}
		return c.showRepeatedly(ctx, out, func(out *term.Output) error {
			over := out.Watch(g.connectOptions(ctx).Where())
			reading := reader.Read(ctx, what)
			over()
			if reading.Err != nil {
				return reading.Err
			}
			var rows []live.Row
			rows, before = live.Rows(reading, before, asked)
			live.Sort(rows, c.Sort)
			if c.Sort == live.Busiest && reading.Cut {
				rows = rows[:min(len(rows), c.Most)]
			}
			return out.Show(seen{reading.At, reading.Resources, rows, len(reading.Buckets), reading.Cut, reading.Read, reading.Units}, func() {
				s := live.Screen{Title: what.Title(), Note: what.Note(), Rows: rows, Choices: reading.Resources, Last: reading, Order: c.Sort, Style: out}
				fmt.Fprintln(out, strings.Join(s.Lines(), "\n"))
			})
		})
	})
}

// progressPrinter returns a function that notes read, the number of buckets read so far, at most every two
// seconds.
func (c topCmd) progressPrinter(ctx context.Context, out *term.Output) func(read int) {
	told := now(ctx)
	return func(read int) {
		if at := now(ctx); at.Sub(told) >= noteInterval {
			told = at
			out.Notef("dynalimit: %s buckets read", notation.GroupedNumber(int64(read)))
		}
	}
}
