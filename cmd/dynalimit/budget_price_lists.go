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

// priceListFlags name a price list and select from it.
type priceListFlags struct {
	Source   string   `arg:"" optional:"" help:"A file, or a URL of http or https. Default: the list of LiteLLM." placeholder:"FILE-OR-URL"`
	Provider []string `help:"Providers of the models, named as in LiteLLM's list. Default: openai, anthropic, gemini, bedrock." placeholder:"PROVIDER"`
	Name     string   `name:"list" help:"The name that its prices are stored with. Default: prices, or litellm." placeholder:"NAME"`
	Accept   []string `help:"Models to take although they are held back." placeholder:"MODEL"`
}

// listSource returns the source of the price list: an http or https URL, the URL of LiteLLM's list without an
// argument, else a file. It opens nothing.
func (f priceListFlags) listSource() pricefeed.Source {
	switch scheme, _, ok := strings.Cut(f.Source, "://"); {
	case f.Source == "":
		return pricefeed.URL{}
	case ok && (scheme == "https" || scheme == "http"):
		return pricefeed.URL{Address: f.Source}
	}
	return pricefeed.File(f.Source)
}

// loadList reads and parses the price list of the flags, for the named providers or else the default ones. It
// stores nothing, and its errors advise to name another file or URL.
func (f priceListFlags) loadList(ctx context.Context) (list prices.List, err error) {
	body, _, err := f.listSource().Open(ctx, "")
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

// importOptions returns the options of an import or its review: the name of --list, and the models of --accept,
// which are taken although held back.
func (f priceListFlags) importOptions() budget.PriceImport {
	return budget.PriceImport{List: f.Name, Accept: f.Accept}
}

// printReview loads the list and prints the changes that an import would make, and the prices held back. It
// stores nothing.
func (f priceListFlags) printReview(ctx context.Context, k *budget.Keeper, out *term.Output) error {
	list, err := f.loadList(ctx)
	if err != nil {
		return err
	}
	report, err := k.Prices().Review(ctx, list, f.importOptions())
	if err != nil {
		return err
	}
	j := priceReportJSON{true, report}
	return out.Show(j, func() { j.printText(out, "Would be taken", "Nothing was changed.") })
}

type pricesImportCmd struct {
	priceListFlags
	changes
}

// Run loads a price list, stores its changed and plausible prices, and prints them with those held back. A dry
// run stores nothing. After an error it says how many prices are stored already.
func (c pricesImportCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.onKeeper(ctx, out, func(k *budget.Keeper) error {
		if c.DryRun {
			return c.printReview(ctx, k, out)
		}
		list, err := c.loadList(ctx)
		if err != nil {
			return err
		}
		report, err := k.Prices().Import(ctx, list, c.importOptions())
		if err != nil {
			if n := len(report.Accepted); n > 0 {
				err = fmt.Errorf("%d prices are stored, the others are not; the same command does the rest: %w", n, err)
			}
			return err
		}
		j := priceReportJSON{PriceReport: report}
		return out.Show(j, func() { j.printText(out, "Taken", "'--accept MODEL' takes a price that is held back.") })
	})
}

// priceReportJSON is the result of an import, or of a dry run, as JSON.
type priceReportJSON struct {
	DryRun bool `json:"dry_run,omitempty"`
	budget.PriceReport
}

// heldWords are the reasons to hold back a price, for people.
var heldWords = map[string]string{
	"dearer": "more than three times as much, or as it was 30 days ago", "cheaper": "less than a third, or of what it was 30 days ago", "zero": "free",
	"by_hand": "the price in force was put by hand",
}

// printText prints the accepted prices and those held back with the reason, then the numbers of unchanged
// prices and of skipped rows. taken is the text before an accepted price, and last is advice for the end.
func (j priceReportJSON) printText(out *term.Output, taken, last string) {
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

// changeText formats a price change as one line: the model, its scope if any, and the rates before and after in
// dollars a million tokens. The start of the new rates follows, in UTC.
func changeText(c budget.PriceChange) string {
	text := c.Model
	if c.Scope != "" {
		text += " (" + string(c.Scope) + ")"
	}
	return fmt.Sprintf("%s  %s → %s, from %s", text, ratesText(c.Before), ratesText(c.After), c.EffectiveFrom.UTC().Format("2006-01-02 15:04:05"))
}

// ratesText formats rates, in dollars a million tokens, as one line. It omits cache rates that are not set,
// shows free ones as $0.00, and returns "nothing" for nil.
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
