package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/pricefeed"
	"github.com/dynalimit/dynalimit/prices"
)

// priceListFlags are where a price list is and what of it is meant.
type priceListFlags struct {
	Source   string   `arg:"" optional:"" help:"A file, or a URL of http or https. Default: the list of LiteLLM." placeholder:"FILE-OR-URL"`
	Provider []string `help:"Whose models, as LiteLLM's list names them. Default: openai, anthropic, gemini, bedrock." placeholder:"PROVIDER"`
	Name     string   `name:"list" help:"The name that its prices are stored with. Default: prices, or litellm." placeholder:"NAME"`
	Accept   []string `help:"Models to take although they are held back." placeholder:"MODEL"`
}

// source is where the list is.
func (f priceListFlags) source() pricefeed.Source {
	switch scheme, _, ok := strings.Cut(f.Source, "://"); {
	case f.Source == "":
		return pricefeed.URL{}
	case ok && (scheme == "https" || scheme == "http"):
		return pricefeed.URL{Address: f.Source}
	}
	return pricefeed.File(f.Source)
}

// load reads the list.
func (f priceListFlags) load(ctx context.Context) (list prices.List, err error) {
	body, _, err := f.source().Open(ctx, "")
	if err != nil {
		return list, fmt.Errorf("%w; name a file or a URL that has a price list", err)
	}
	defer func() { _ = body.Close() }()
	list, err = prices.Load(body, f.Provider...)
	if err != nil {
		return list, fmt.Errorf("%w; name a file or a URL that has prices, or LiteLLM's list", err)
	}
	return list, nil
}

func (f priceListFlags) how() budget.PriceImport {
	return budget.PriceImport{List: f.Name, Accept: f.Accept}
}

// review shows what an import would do.
func (f priceListFlags) review(ctx context.Context, k *budget.Keeper, out *term.Output) error {
	list, err := f.load(ctx)
	if err != nil {
		return err
	}
	report, err := k.Prices().Review(ctx, list, f.how())
	if err != nil {
		return err
	}
	j := priceReportJSON{true, report}
	return out.Show(j, func() { j.print(out, "Would be taken", "Nothing was changed.") })
}

type pricesImportCmd struct {
	priceListFlags
	changes
}

func (c pricesImportCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		if c.DryRun {
			return c.review(ctx, k, out)
		}
		list, err := c.load(ctx)
		if err != nil {
			return err
		}
		report, err := k.Prices().Import(ctx, list, c.how())
		if err != nil {
			if n := len(report.Accepted); n > 0 {
				err = fmt.Errorf("%d prices are stored, the others are not; the same command does the rest: %w", n, err)
			}
			return err
		}
		j := priceReportJSON{PriceReport: report}
		return out.Show(j, func() { j.print(out, "Taken", "'--accept MODEL' takes what is held back.") })
	})
}

// priceReportJSON is what became of a list, or would.
type priceReportJSON struct {
	DryRun bool `json:"dry_run,omitempty"`
	budget.PriceReport
}

// heldWords say why a price is held back.
var heldWords = map[string]string{
	"dearer": "more than three times as much, or as it was 30 days ago", "cheaper": "less than a third, or of what it was 30 days ago", "zero": "free",
	"by_hand": "the price in force was put by hand",
}

func (j priceReportJSON) print(out *term.Output, taken, last string) {
	for _, c := range j.Accepted {
		fmt.Fprintf(out, "%s: %s\n", taken, changeText(c))
	}
	for _, c := range j.Held {
		why := heldWords[c.Reason]
		if c.Class != "" {
			why = strings.ReplaceAll(c.Class, "_", " ") + ": " + why
		}
		fmt.Fprintf(out, "%s: %s (%s)\n", out.Bold("Held back"), changeText(c), why)
	}
	fmt.Fprintf(out, "Unchanged: %d. Rows of the list that are no prices of tokens: %d. %s\n", len(j.Unchanged), len(j.Skipped), last)
}

// text is a change in a line.
func changeText(c budget.PriceChange) string {
	text := c.Model
	if c.Scope != "" {
		text += " (" + string(c.Scope) + ")"
	}
	return fmt.Sprintf("%s  %s → %s, from %s", text, ratesText(c.Before), ratesText(c.After), c.EffectiveFrom.UTC().Format("2006-01-02 15:04:05"))
}

// ratesText are rates in a line.
func ratesText(r *prices.Rates) string {
	if r == nil {
		return "nothing"
	}
	text := fmt.Sprintf("in %s, out %s", dollars(max(r.Input, 0)), dollars(max(r.Output, 0)))
	for _, class := range []struct {
		name string
		rate int64
	}{{"read", r.CacheRead}, {"write", r.CacheWrite5m}, {"1 h", r.CacheWrite1h}} {
		if class.rate != 0 {
			text += fmt.Sprintf(", %s %s", class.name, dollars(max(class.rate, 0)))
		}
	}
	return text
}
