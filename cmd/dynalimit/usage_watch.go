package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/live"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// usageWatchCmd is a live view of usage.
type usageWatchCmd struct {
	whose
	Since    string            `help:"The time up to now that is shown." default:"24h"`
	By       aggregator.Window `help:"What is summed: hour, day or month." enum:"hour,day,month" default:"hour"`
	Timezone string            `help:"The time zone in which days begin and times are shown, such as Europe/Berlin." default:"UTC"`
	Every    time.Duration     `help:"The time between two readings." default:"10s"`
	Once     bool              `help:"Show one screen, and end. So it is where there is no terminal."`
}

func (c usageWatchCmd) Validate() error {
	if c.Every < time.Second {
		return fmt.Errorf("--every is %v: give at least 1s, each reading costs read units", c.Every)
	}
	_, err := c.period().read(time.Unix(0, 0), 0)
	return cmp.Or(err, c.whose.Validate())
}

func (c usageWatchCmd) period() period {
	return period{Since: c.Since, Timezone: c.Timezone}
}

func (c usageWatchCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	a, err := c.period().read(now(ctx), 0)
	if err != nil {
		return badInput("%w", err)
	}
	return g.viewing(ctx, out, func(_ *dynalimit.Repository, meter *live.Meter) error {
		reader, err := g.usageReader(ctx, meter, a.zone)
		if err != nil {
			return err
		}
		if c.Once || !onScreen(out) {
			defer out.Watch(g.options(ctx).Where())()
			return c.once(ctx, out, reader)
		}
		read := func(ctx context.Context, _ live.What) live.Reading { return c.look(ctx, reader, meter) }
		return live.Live{
			Read: read, What: live.What{Page: c.title(), Hint: "Open windows grow; 'usage list' shows each."}, Every: c.Every, Style: out, Now: time.Now,
		}.Show(ctx, out.In, out.Writer)
	})
}

// title is that of the view.
func (c usageWatchCmd) title() string {
	title := "usage " + c.whose.title()
	if c.Resource != "" {
		title += " on " + c.Resource
	}
	return fmt.Sprintf("%s, the last %s by %s", title, c.Since, c.By)
}

// read reads what is shown.
func (c usageWatchCmd) read(ctx context.Context, r *aggregator.Reader) (asked, summary, error) {
	at := now(ctx)
	a, err := c.period().read(at, 0)
	if err != nil {
		return a, summary{}, err
	}
	a = a.widened(c.By, at)
	s, err := summarize(c.By, a, at, c.find(ctx, r, aggregator.Query{From: a.From, To: a.To, Window: c.By}))
	return a, s, err
}

func (c usageWatchCmd) once(ctx context.Context, out *term.Output, r *aggregator.Reader) error {
	a, s, err := c.read(ctx, r)
	if err != nil {
		return err
	}
	return out.Show(s, func() {
		fmt.Fprintf(out, "%s\n\n", out.Bold(term.Plain(c.title())))
		s.show(out, a)
	})
}

// look is a reading of the live view.
func (c usageWatchCmd) look(ctx context.Context, r *aggregator.Reader, meter *live.Meter) live.Reading {
	before := meter.Units()
	a, s, err := c.read(ctx, r)
	return live.Reading{
		At: a.To.In(a.zone), Err: err, Units: meter.Units() - before, Facts: notation.Many(s.Windows.All, "window"),
		Page: func(style *term.Output) []string {
			var text bytes.Buffer
			s.show(style.Sheet(&text, style.Width), a)
			return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
		},
	}
}
