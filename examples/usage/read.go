package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
)

// widest is the width of the longest bar.
const widest = 32

// readHours reads the total of the model, hour by hour: what cascades counts once.
func (d *day) readHours(ctx context.Context) error {
	reader, err := d.reader()
	if err != nil {
		return err
	}
	d.step("Read", "%s in total, tokens by the hour", model)
	var bars []bar
	for u, err := range reader.Resource(ctx, model, d.query(aggregator.Hour)) {
		if err != nil {
			return err
		}
		bars = append(bars, bar{u.Start.Format("15:04"), consumed(u)})
	}
	d.draw(bars)
	return nil
}

// readKeys reads the day of the team and of each key. Hours that are open count too.
func (d *day) readKeys(ctx context.Context) error {
	reader, err := d.reader()
	if err != nil {
		return err
	}
	d.step("Read", "the day of %s, which has what its keys used, and of each key", team)
	var bars []bar
	for _, id := range append([]string{team}, keys...) {
		for u, err := range reader.Entity(ctx, id, d.query(aggregator.Day)) {
			if err != nil {
				return err
			}
			bars = append(bars, bar{u.Entity, consumed(u)})
		}
	}
	d.draw(bars)
	return nil
}

func (d *day) reader() (*aggregator.Reader, error) {
	return aggregator.NewReader(d.db.Client(), table, &aggregator.ReaderOptions{Now: d.now})
}

// query asks for today, up to now.
func (d *day) query(w aggregator.Window) aggregator.Query {
	return aggregator.Query{Resource: model, Window: w, From: d.at.Truncate(24 * time.Hour), To: d.at}
}

// consumed is what a window used, in tokens.
func consumed(u aggregator.Usage) (tokens int64) {
	for _, l := range u.Limits {
		tokens += l.Consumed / 1000 // millitokens
	}
	return tokens
}

// bar is a line of a chart.
type bar struct {
	name   string
	tokens int64
}

// draw prints bars, the largest as wide as widest.
func (d *day) draw(bars []bar) {
	var most int64 = 1
	for _, b := range bars {
		most = max(most, b.tokens)
	}
	for _, b := range bars {
		full := int((b.tokens*widest + most/2) / most)
		fmt.Fprintf(d.out, "    %-8s%s%s %8d\n", b.name, strings.Repeat("█", full), strings.Repeat("░", widest-full), b.tokens)
	}
}

// step says what was done.
func (d *day) step(name, format string, args ...any) {
	fmt.Fprintf(d.out, "\n%-6s %s\n", name, fmt.Sprintf(format, args...))
}
