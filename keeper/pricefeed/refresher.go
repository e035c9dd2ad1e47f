package pricefeed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// Options configures a Refresher. Every field is optional.
type Options struct {
	// Providers names the providers with models to import, as LiteLLM's list does. Defaults to
	// those of the catalog, see prices.Load.
	Providers []string
	// Import configures the import, see budget.PriceImport. The zero value holds back doubtful
	// prices.
	Import budget.PriceImport
	// Every is the time from the end of one refresh to the next, at least a minute.
	// Defaults to a day.
	Every time.Duration
	// Jitter is the largest part of Every, 0 to 1, to shorten a wait by at random, so that
	// processes that start together do not load together. A negative value turns it off.
	// Defaults to 0.1.
	Jitter float64
	// RetryAfter is the wait after a failed refresh. It doubles with each failure, up to Every.
	// Defaults to a minute.
	RetryAfter time.Duration
	// Timeout bounds one refresh. Defaults to 5 min.
	Timeout time.Duration
	// OnReport is called after each refresh, on the goroutine of Run or Refresh. After an error
	// the report contains the changes before it. Defaults to nil.
	OnReport func(ctx context.Context, report budget.PriceReport, err error)
	// Random returns a number from 0 (included) to 1 (excluded). Defaults to math/rand's.
	Random func() float64
	// Logger logs accepted prices, held prices and errors. Defaults to discarding.
	Logger *slog.Logger
}

// withDefaults returns a copy of the options with defaults for zero fields. A negative Jitter becomes 0.
// Providers and OnReport stay as they are.
func (o Options) withDefaults() Options {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Every = cmp.Or(o.Every, 24*time.Hour)
	o.Jitter = max(0, cmp.Or(o.Jitter, 0.1))
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Minute)
	return o
}

// validate returns a *fault.ValidationError for the first wrong one of Every, Jitter, RetryAfter and Timeout,
// whose defaults must be set, or nil.
func (o Options) validate() error {
	switch {
	case o.Every < time.Minute:
		return invalid("options.every", "is %v; give at least a minute, or 0 for a day", o.Every)
	case o.Jitter > 1 || math.IsNaN(o.Jitter):
		return invalid("options.jitter", "is %v; give a part from 0 to 1, below zero for none", o.Jitter)
	case o.RetryAfter < 0:
		return invalid("options.retry_after", "is below zero; give a positive duration, or 0 for a minute")
	case o.Timeout < 0:
		return invalid("options.timeout", "is below zero; give a positive duration, or 0 for 5 min")
	}
	return nil
}

// invalid returns the *fault.ValidationError of an option or argument, with a formatted reason.
func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: "pricefeed", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}

// Refresher imports a source's price list periodically. Make one with New. It is safe for
// concurrent use; its refreshes run one after the other.
type Refresher struct {
	store  importer
	source Source
	opts   Options

	turn chan struct{} // full while a refresh runs
	tag  string        // the tag of list
	list prices.List
}

// importer is the method of budget.Prices that a Refresher needs.
type importer = interface {
	Import(ctx context.Context, list prices.List, how budget.PriceImport) (budget.PriceReport, error)
}

// New returns a refresher that imports the lists of source into store, which is keeper.Prices(), with that
// keeper's principal. It sends no request and starts no goroutine. Bad arguments are a *fault.ValidationError.
func New(store interface {
	Import(ctx context.Context, list prices.List, how budget.PriceImport) (budget.PriceReport, error)
}, source Source, options *Options,
) (*Refresher, error) {
	var opts Options
	if options != nil {
		opts = *options
	}
	if problem.IsNil(store) {
		return nil, invalid("store", "is nil; pass keeper.Prices()")
	}
	if problem.IsNil(source) {
		return nil, invalid("source", "is nil; pass a URL, a File or a Source of your own")
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	opts.Providers = slices.Clone(opts.Providers)
	return &Refresher{store: store, source: source, opts: opts, turn: make(chan struct{}, 1)}, nil
}

// Refresh waits for a refresh in progress, loads the list if it has changed, imports it in any case, and reports the
// result to OnReport. A list that cannot be loaded changes nothing; else the report has the changes before an error.
//
// Errors: those of the Source, of prices.Load and of budget.Prices.Import.
func (r *Refresher) Refresh(ctx context.Context) (budget.PriceReport, error) {
	if err := r.checkUsable(ctx); err != nil {
		return budget.PriceReport{}, err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return budget.PriceReport{}, context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	var report budget.PriceReport
	err := r.loadList(bounded)
	if err == nil {
		report, err = r.store.Import(bounded, r.list, r.opts.Import)
	}
	r.reportRefresh(ctx, report, err)
	return report, err
}

// loadList loads the source's list and its tag into r, unless the source says that it is unchanged. A failure
// keeps the earlier list. If the source cannot be opened, it clears the tag, so that the next load is complete.
func (r *Refresher) loadList(ctx context.Context) (err error) {
	body, tag, err := r.source.Open(ctx, r.tag)
	if errors.Is(err, ErrNotModified) && r.tag != "" {
		return nil
	}
	if err != nil {
		r.tag = "" // the refused list may have this tag
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	list, err := prices.Load(body, r.opts.Providers...)
	if err != nil {
		return err
	}
	r.list, r.tag = list, tag
	return nil
}

// reportRefresh logs the error of a refresh and each accepted and held price, and then calls Options.OnReport
// with report and err.
func (r *Refresher) reportRefresh(ctx context.Context, report budget.PriceReport, err error) {
	log := r.opts.Logger
	if err != nil {
		log.WarnContext(ctx, "pricefeed: refresh failed", "error", err)
	}
	for _, c := range report.Accepted {
		log.InfoContext(ctx, "pricefeed: accepted", "model", c.Model, "scope", c.Scope, "from", c.EffectiveFrom)
	}
	for _, c := range report.Held {
		log.WarnContext(ctx, "pricefeed: held back", "model", c.Model, "scope", c.Scope, "reason", c.Reason, "class", c.Class)
	}
	if r.opts.OnReport != nil {
		r.opts.OnReport(ctx, report, err)
	}
}

// Run calls Refresh at once, and again after each wait of Every, or of RetryAfter after a failure, until ctx
// ends. It returns the cause of that end. Failures and panics are logged and do not stop it.
func (r *Refresher) Run(ctx context.Context) error {
	if err := r.checkUsable(ctx); err != nil {
		return err
	}
	failed := 0
	for {
		err := guard.Apart(func() error {
			_, err := r.Refresh(ctx)
			return err
		})
		if ended, ok := errors.AsType[*guard.Ended](err); ok {
			r.opts.Logger.ErrorContext(ctx, "pricefeed: a refresh did not return", "error", err, "stack", string(ended.Stack))
		}
		failed++
		if err == nil {
			failed = 0
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		timer := time.NewTimer(r.waitAfter(failed))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// checkUsable returns a *fault.ValidationError if New did not make r or if ctx is nil, else nil.
func (r *Refresher) checkUsable(ctx context.Context) error {
	if r == nil || r.turn == nil {
		return invalid("refresher", "was not made by New")
	}
	return problem.CheckContext(ctx, "pricefeed")
}

// waitAfter returns the time to the next refresh after a number of consecutive failures. It is Every after 0,
// else RetryAfter, doubled with each failure up to Every. A random part, up to Jitter of it, is subtracted.
func (r *Refresher) waitAfter(failed int) time.Duration {
	wait := r.opts.Every
	if failed > 0 {
		wait = min(wait, r.opts.RetryAfter)
		for n := 1; n < failed && wait < r.opts.Every; n++ {
			wait += min(wait, r.opts.Every-wait)
		}
	}
	return wait - time.Duration(r.opts.Random()*r.opts.Jitter*float64(wait))
}
