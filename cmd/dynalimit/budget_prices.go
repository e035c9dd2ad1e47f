package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

type pricesCmd struct {
	List  pricesListCmd  `cmd:"" help:"List prices that are stored, or built in."`
	Set   pricesSetCmd   `cmd:"" help:"Store a model's price, for all organisations."`
	Reset pricesResetCmd `cmd:"" help:"Drop a model's stored prices: the built-in ones hold again."`

	Import pricesImportCmd `cmd:"" help:"Store the different, plausible prices of a price list."`
}

// priceJSON is a price with its model's info, as JSON.
type priceJSON struct {
	prices.Price
	Stored bool `json:"stored"`
	budget.ModelInfo
}

// printText prints a price as one line: its rates in dollars a million tokens, its scope and start if it has
// some, and its origin. It omits cache rates that are not set.
func (j priceJSON) printText(out *term.Output) {
	fmt.Fprintf(out, "%-44s in %s, out %s", j.Model, dollars(j.Rates.Input), dollars(j.Rates.Output))
	for _, class := range []struct {
		name string
		rate int64
	}{{"cache read", j.Rates.CacheRead}, {"cache write", j.Rates.CacheWrite5m}, {"for 1 h", j.Rates.CacheWrite1h}} {
		switch class.rate {
		case 0:
		case prices.FreeRate:
			fmt.Fprintf(out, ", %s free", class.name)
		default:
			fmt.Fprintf(out, ", %s %s", class.name, dollars(class.rate))
		}
	}
	if j.Scope != "" {
		fmt.Fprintf(out, ", %s", j.Scope)
	}
	if !j.EffectiveFrom.IsZero() {
		fmt.Fprintf(out, ", from %s", j.EffectiveFrom.Format(time.DateOnly))
	}
	if j.Stored {
		fmt.Fprintf(out, ", %s", out.Bold("stored"))
	}
	if j.List != "" {
		fmt.Fprintf(out, " of %s", j.List)
	}
	if j.Checked != "" {
		fmt.Fprintf(out, ", checked %s", j.Checked)
	}
	if text := infoText(j.ModelInfo); text != "" {
		fmt.Fprintf(out, "; %s", text)
	}
	fmt.Fprintln(out)
}

type pricesListCmd struct {
	Model string `arg:"" optional:"" help:"A model's id, or a part of one. Default: all."`
}

// matchesModel reports whether the argument selects a model: one of the argument and the model's id contains
// the other. An empty argument selects all models.
func (c pricesListCmd) matchesModel(model string) bool {
	return strings.Contains(model, c.Model) || strings.Contains(c.Model, model)
}

// findPrices returns the prices of matching models, each with the stored info of its model. The stored prices
// come first, sorted by model, then the built-in ones, including those that a stored price replaces. The result
// is never nil without an error.
func (c pricesListCmd) findPrices(ctx context.Context, k *budget.Keeper) ([]priceJSON, error) {
	all := []priceJSON{}
	told := map[string]budget.ModelInfo{}
	for m, err := range k.Prices().Models(ctx) {
		if err != nil {
			return nil, err
		}
		told[m.Model] = m.Info
		for _, p := range m.Prices {
			if c.matchesModel(p.Model) {
				all = append(all, priceJSON{Price: p, Stored: true})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b priceJSON) int { return strings.Compare(a.Model, b.Model) })
	for _, p := range prices.Catalog() {
		if c.matchesModel(p.Model) {
			all = append(all, priceJSON{Price: p})
		}
	}
	for i := range all {
		all[i].ModelInfo = told[all[i].Model]
	}
	return all, nil
}

// Run prints the stored prices, then the built-in ones, of the models that the argument matches, or of all
// models without it. Without a match it prints how to store a price.
func (c pricesListCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) ([]priceJSON, error) { return c.findPrices(ctx, k) }, func(all []priceJSON) {
		if len(all) == 0 {
			fmt.Fprintf(out, "No price for %q. 'dynalimit budget prices set --help' shows how to store one.\n", c.Model)
		}
		for _, j := range all {
			j.printText(out)
		}
	})
}

type pricesSetCmd struct {
	Model        string   `arg:"" help:"The model's id."`
	Input        dollars  `help:"Dollars per million tokens of input." required:"" placeholder:"USD"`
	Output       dollars  `help:"Dollars per million tokens of output." required:"" placeholder:"USD"`
	CacheRead    *dollars `help:"Of input read from the prompt cache; 0 is free. Default: as input." placeholder:"USD"`
	CacheWrite5m *dollars `name:"cache-write-5m" help:"Of input written to it for 5 minutes; 0 is free. Default: 1.25 times input." placeholder:"USD"`
	CacheWrite1h *dollars `name:"cache-write-1h" help:"Of input written to it for an hour; 0 is free. Default: twice input." placeholder:"USD"`
	From         dayFlag  `help:"The first day it holds, in UTC. Default: it always held." placeholder:"DAY"`
}

// flagPrice returns the price of the flags, with rates in micro-dollars a million tokens. A missing cache rate
// is 0, and a cache rate of 0 dollars is prices.FreeRate. Without --from the price has no start.
func (c pricesSetCmd) flagPrice() (prices.Price, error) {
	rate := func(d *dollars) int64 {
		switch {
		case d == nil:
			return 0
		case *d == 0:
			return prices.FreeRate
		}
		return int64(*d)
	}
	p := prices.Price{Model: c.Model, Rates: prices.Rates{
		Input: int64(c.Input), Output: int64(c.Output),
		CacheRead: rate(c.CacheRead), CacheWrite5m: rate(c.CacheWrite5m), CacheWrite1h: rate(c.CacheWrite1h),
	}}
	if c.From == "" {
		return p, nil
	}
	var err error
	p.EffectiveFrom, err = time.Parse("20060102", string(c.From))
	return p, err
}

// Run stores the price of the flags for a model, for all organisations, and prints it. Stored prices with
// another start stay beside it; one with the same start is replaced.
func (c pricesSetCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (priceJSON, error) {
		p, err := c.flagPrice()
		if err != nil {
			return priceJSON{}, err
		}
		p, err = k.Prices().Add(ctx, p)
		return priceJSON{Price: p, Stored: true}, err
	}, func(j priceJSON) { j.printText(out) })
}

type pricesResetCmd struct {
	Model string `arg:"" help:"The model's id."`
}

// Run removes all stored prices of a model, so that the built-in price applies, and prints that. It fails if no
// price is stored.
func (c pricesResetCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (priceJSON, error) {
		rows, err := k.Prices().Get(ctx, c.Model)
		if err == nil && len(rows) == 0 {
			err = errors.New("no price is stored for it: 'dynalimit budget prices list " + c.Model + "' shows the price in force")
		}
		if err == nil {
			err = k.Prices().Replace(ctx, c.Model, rows)
		}
		return priceJSON{Price: prices.Price{Model: c.Model}}, err
	}, func(priceJSON) { fmt.Fprintf(out, "%s has no stored price any more.\n", c.Model) })
}

// infoText returns the tier, family and description of a model in one line, separated by commas, without empty
// ones. It is "" if all are empty.
func infoText(i budget.ModelInfo) string {
	said := []string{i.Tier, i.Family, i.Description}
	return term.Plain(strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), ", "))
}
