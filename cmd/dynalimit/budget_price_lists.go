package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/prices"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// priceListFlags are where a price list is and what of it is meant.
type priceListFlags struct {
	Source       string   `arg:"" optional:"" help:"A file, a URL of http or https, or s3://BUCKET/KEY. Default: the list of genai-prices." placeholder:"FILE-OR-URL"`
	BucketRegion string   `help:"The bucket's region. Default: the table's." placeholder:"REGION"`
	Format       string   `help:"genai-prices or litellm. Default: whichever the list has." enum:",genai-prices,litellm" default:"" placeholder:"FORMAT"`
	Provider     []string `help:"Whose models, as the list names them. Default: openai, anthropic, google or gemini, aws or bedrock." placeholder:"PROVIDER"`
	Name         string   `name:"list" help:"The name by which the list is known again. Default: its format." placeholder:"NAME"`
	Accept       []string `help:"Models to take although they are held back." placeholder:"MODEL"`
}

// source is where the list is.
func (f priceListFlags) source(ctx context.Context, g *globals) (prices.Source, error) {
	scheme, rest, ok := strings.Cut(f.Source, "://")
	switch {
	case f.Source == "":
		return prices.URL{Address: prices.GenAIPricesURL}, nil
	case ok && (scheme == "https" || scheme == "http"):
		return prices.URL{Address: f.Source}, nil
	case ok && scheme == "s3":
		cfg, err := g.options(ctx).Config(ctx)
		bucket, key, _ := strings.Cut(rest, "/")
		return prices.S3{
			Bucket: bucket, Key: key, Region: cmp.Or(f.BucketRegion, cfg.Region), Credentials: cfg.Credentials,
			Endpoint: cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), aws.ToString(cfg.BaseEndpoint)), Now: clockOf(ctx),
		}, err
	}
	return prices.File(f.Source), nil
}

// load reads the list.
func (f priceListFlags) load(ctx context.Context, g *globals) (list budget.PriceList, err error) {
	source, err := f.source(ctx, g)
	if err != nil {
		return list, err
	}
	body, _, err := source.Open(ctx, "")
	if err != nil {
		return list, fmt.Errorf("%w; name a file or a URL that has a price list", err)
	}
	defer func() { _ = body.Close() }()
	providers := f.Provider
	if len(providers) == 0 {
		providers = prices.DefaultProviders()
	}
	list, err = budget.LoadPrices(body, budget.PriceFormat(f.Format), providers...)
	if err != nil {
		return list, fmt.Errorf("%w; name a file or a URL that has a price list of genai-prices or LiteLLM", err)
	}
	return list, nil
}

func (f priceListFlags) how() budget.PriceImport {
	return budget.PriceImport{List: f.Name, Accept: f.Accept}
}

type pricesDiffCmd struct{ priceListFlags }

func (c pricesDiffCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error { return c.review(ctx, b.globals, k, out, false) })
}

// review shows what an import would do.
func (f priceListFlags) review(ctx context.Context, g *globals, k *budget.Keeper, out *term.Output, dryRun bool) error {
	list, err := f.load(ctx, g)
	if err != nil {
		return err
	}
	report, err := k.ReviewPrices(ctx, list, f.how())
	if err != nil {
		return err
	}
	j := reportToJSON(report)
	j.DryRun = dryRun
	return out.Show(j, func() { j.print(out, "Would be taken", "Nothing was changed.") })
}

type pricesImportCmd struct {
	priceListFlags
	changes
}

func (c pricesImportCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		if c.DryRun {
			return c.review(ctx, b.globals, k, out, true)
		}
		list, err := c.load(ctx, b.globals)
		if err != nil {
			return err
		}
		report, err := k.ImportPrices(ctx, list, c.how())
		if err != nil {
			if n := len(report.Accepted); n > 0 {
				err = fmt.Errorf("%d prices are stored, the others are not; the same command does the rest: %w", n, err)
			}
			return err
		}
		j := reportToJSON(report)
		return out.Show(j, func() { j.print(out, "Taken", "'--accept MODEL' takes what is held back.") })
	})
}

// priceChangeJSON is a price that differs.
type priceChangeJSON struct {
	Model  string            `json:"model"`
	Scope  budget.PriceScope `json:"scope,omitempty"`
	From   time.Time         `json:"effective_from"`
	Before *budget.Rates     `json:"before,omitempty"`
	After  *budget.Rates     `json:"after,omitempty"`
	Reason budget.HeldReason `json:"reason,omitempty"`
	Class  string            `json:"class,omitempty"`
}

type skippedPriceJSON struct {
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

type priceReportJSON struct {
	DryRun    bool               `json:"dry_run,omitempty"`
	List      string             `json:"list"`
	Accepted  []priceChangeJSON  `json:"accepted"`
	Held      []priceChangeJSON  `json:"held_back"`
	Unchanged []string           `json:"unchanged"`
	Skipped   []skippedPriceJSON `json:"skipped"`
}

func reportToJSON(r budget.PriceReport) priceReportJSON {
	j := priceReportJSON{
		List: r.List, Accepted: []priceChangeJSON{}, Held: []priceChangeJSON{},
		Unchanged: append([]string{}, r.Unchanged...), Skipped: []skippedPriceJSON{},
	}
	for _, c := range r.Accepted {
		j.Accepted = append(j.Accepted, changeToJSON(c))
	}
	for _, c := range r.Held {
		j.Held = append(j.Held, changeToJSON(c))
	}
	for _, s := range r.Skipped {
		j.Skipped = append(j.Skipped, skippedPriceJSON(s))
	}
	return j
}

func changeToJSON(c budget.PriceChange) priceChangeJSON {
	return priceChangeJSON{c.Model, c.Scope, c.EffectiveFrom.UTC(), c.Before, c.After, c.Reason, c.Class}
}

// heldWords say why a price is held back.
var heldWords = map[budget.HeldReason]string{
	budget.HeldDearer: "more than three times as much", budget.HeldCheaper: "less than a third", budget.HeldZero: "free",
	budget.HeldModelGone: "the list has it no more", budget.HeldClassGone: "the list has no price for it any more",
	budget.HeldByHand: "the price in force was put by hand", budget.HeldOtherList: "the price in force is another list's",
	budget.HeldAmbiguous: "the list has two prices: name fewer providers", budget.HeldTooMany: "too many prices are stored for it",
}

func (j priceReportJSON) print(out *term.Output, taken, last string) {
	for _, c := range j.Accepted {
		fmt.Fprintf(out, "%s: %s\n", taken, c.text())
	}
	for _, c := range j.Held {
		why := heldWords[c.Reason]
		if c.Class != "" {
			why = strings.ReplaceAll(c.Class, "_", " ") + ": " + why
		}
		fmt.Fprintf(out, "%s: %s (%s)\n", out.Bold("Held back"), c.text(), why)
	}
	fmt.Fprintf(out, "Unchanged: %d. Rows of the list that are no prices of tokens: %d. %s\n", len(j.Unchanged), len(j.Skipped), last)
}

// text is a change in a line.
func (c priceChangeJSON) text() string {
	text := c.Model
	if c.Scope != budget.AnyScope {
		text += " (" + c.Scope.String() + ")"
	}
	if c.After == nil {
		return fmt.Sprintf("%s  %s, which stays", text, ratesText(c.Before))
	}
	return fmt.Sprintf("%s  %s → %s, from %s", text, ratesText(c.Before), ratesText(c.After), c.From.Format("2006-01-02 15:04:05"))
}

// ratesText are rates in a line.
func ratesText(r *budget.Rates) string {
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
