package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/live"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// topCmd is a live view of buckets.
type topCmd struct {
	Resource string        `help:"The fullest buckets of this resource; with --entity, only those." placeholder:"NAME"`
	Entity   []string      `help:"The buckets of this entity, and of its children. May be repeated." placeholder:"ID" sep:"none"`
	Ask      []string      `help:"Show when this would fit, NAME=N, such as rpm=1. May be repeated." placeholder:"AMOUNT" sep:"none"`
	Sort     live.Order    `help:"Sort by: fullest, busiest or name." enum:"fullest,busiest,name" default:"fullest"`
	Every    time.Duration `help:"Time between two readings." default:"2s"`
	Most     int           `help:"Read at most so many buckets each time: each costs a read unit or so." default:"1000"`
	Once     bool          `help:"Print one screen, and end. So it is where there is no terminal."`
}

func (c topCmd) Validate() error {
	if c.Every < 100*time.Millisecond {
		return fmt.Errorf("--every is %v: give at least 100ms, each reading costs read units", c.Every)
	}
	if c.Most < 1 {
		return fmt.Errorf("--most is %d: give at least 1", c.Most)
	}
	_, err := notation.Amounts(c.Ask)
	return err
}

// seen is a reading for programs.
type seen struct {
	At        time.Time  `json:"at"`
	Resources []string   `json:"resources,omitempty"`
	Limits    []live.Row `json:"limits"`
	Buckets   int        `json:"buckets"`
	Cut       bool       `json:"cut"`
	ReadUnits float64    `json:"read_units"`
}

func (c topCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	asked, err := notation.Amounts(c.Ask)
	if err != nil {
		return badInput("%w", err)
	}
	return g.viewing(ctx, out, func(repo *dynalimit.Repository, meter *live.Meter) error {
		reader := &live.Reader{Store: repo, Meter: meter, Most: c.Most, Now: func() time.Time { return now(ctx) }}
		reader.Used = func(ctx context.Context) ([]string, error) { return g.resourcesOfBuckets(ctx, meter, c.Most) }
		what := live.What{Resource: c.Resource, Entities: c.Entity}
		if !c.Once && onScreen(out) {
			return live.Live{
				Read: reader.Read, What: what, Asked: asked, By: c.Sort, Every: c.Every, Style: out, Now: time.Now,
			}.Show(ctx, out.In, out.Writer)
		}
		over := out.Watch(g.options(ctx).Where())
		reading := reader.Read(ctx, what)
		over()
		if reading.Err != nil {
			return reading.Err
		}
		return c.print(out, what, reading, asked)
	})
}

// print prints one reading.
func (c topCmd) print(out *term.Output, what live.What, r live.Reading, asked dynalimit.Amounts) error {
	rows, _ := live.Rows(r, live.Counts{}, asked)
	live.Sort(rows, c.Sort)
	return out.Show(seen{r.At, r.Resources, rows, len(r.Buckets), r.Cut, r.Units}, func() {
		s := live.Screen{Title: what.Title(), Note: what.Note(), Rows: rows, Of: len(rows), Choices: r.Resources, Last: r, By: c.Sort, Style: out}
		fmt.Fprintln(out, strings.Join(s.Lines(), "\n"))
	})
}
