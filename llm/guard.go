package llm

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/prices"
)

// Limiter is the part of *dynalimit.RateLimiter that a Guard uses.
type Limiter interface {
	// Acquire takes amounts from limits, all or nothing, as
	// dynalimit.RateLimiter.Acquire does.
	Acquire(ctx context.Context, entity, resource string, amounts dynalimit.Amounts, opts ...dynalimit.AcquireOption) (*dynalimit.Lease, error)
}

// Keeper is the part of a keeper of budgets that a Guard uses. *budget.Keeper implements it, and so does
// *budgetclient.Client over HTTP.
type Keeper interface {
	// ChooseLabel returns the label that an app may use now, and its model. It is the given
	// label if that has room, and the keeper's choice if label is empty.
	//
	// Errors: *prices.QuotaExceededError, *fault.ValidationError, *fault.UnavailableError.
	ChooseLabel(ctx context.Context, org, app, label string) (chosen, model string, err error)
	// CountCalls counts the cost of 1 to 100 calls of an app, each once under its request id. It
	// returns an error for each call, nil if it is counted; err is for all.
	CountCalls(ctx context.Context, org, app string, calls []prices.Usage) (errs []error, err error)
}

// Options configure a Guard. It needs a Limiter, a Keeper or both.
type Options struct {
	// Limiter limits the rate of calls. Nil: no rate limits.
	Limiter Limiter
	// Keeper keeps the budgets. Nil: no budgets.
	Keeper Keeper
	// Limits has the measure of each limit. Defaults to
	// DefaultLimits.
	Limits map[string]Measure
	// CutTokens is the number of output tokens that Cost charges beyond the metered ones of a
	// cut call, bounded by the reply's maximum. Defaults to 500: two seconds of a model
	// that writes 250 tokens in one.
	CutTokens int64
	// SettleTimeout bounds the writes after a call; the caller's context does not.
	// Defaults to 20 s.
	SettleTimeout time.Duration
	// OnRefused receives records that the Keeper refuses for good, and those that
	// Close gives up, on a goroutine of its own. Defaults to an error of slog.Default.
	OnRefused func(Refused)
	// OnSettled receives the end of each call, once, on the goroutine that ended it, or later on
	// another. It must be quick, and safe for concurrent use. Defaults to nil.
	OnSettled func(Settled)
	// Now is the Keeper's clock. Defaults to time.Now.
	Now func() time.Time
}

// Guard admits model calls under rate limits, a budget or both, and settles them. Make one
// with New for each process, and Close it before its Keeper. It is safe for concurrent use.
// The zero value is not usable; its methods return a *ValidationError.
//
// Do is for a call that is one function: it starts, runs the function and settles,
// whatever happens to the function. Start is for a call that spans more than one
// function: it returns a Call, which must be ended with Settle or Rollback, or with its
// Meter for a streamed reply.
type Guard struct {
	opts    Options
	money   bool // Cost measures a limit
	records *records
}

// checkParts returns a *ValidationError for options without a limiter and a keeper, with a nil pointer as
// one, or with Limits but no limiter.
func (o *Options) checkParts() error {
	switch {
	case o == nil || o.Limiter == nil && o.Keeper == nil:
		return invalid("options", "has neither a Limiter nor a Keeper; give one or both")
	case o.Limiter != nil && problem.IsNil(o.Limiter):
		return invalid("options.Limiter", "is a nil pointer; look at the error of the dynalimit.New that returned it, or leave Limiter out")
	case o.Keeper != nil && problem.IsNil(o.Keeper):
		return invalid("options.Keeper", "is a nil pointer; look at the error of the budget.New that returned it, or leave Keeper out")
	case o.Limiter == nil && o.Limits != nil:
		return invalid("options.Limits", "are given without a Limiter to charge; give Options.Limiter too, or leave Limits out")
	}
	return nil
}

// New makes a Guard, with defaults for missing options. It sends no requests, but may call each Measure once,
// to test for money. It fails with a *ValidationError that names the wrong option.
func New(opts *Options) (*Guard, error) {
	if err := opts.checkParts(); err != nil {
		return nil, err
	}
	o := *opts
	if o.Limits == nil {
		o.Limits = DefaultLimits()
	}
	if err := checkLimits("options.Limits", o.Limits); err != nil {
		return nil, err
	}
	if o.SettleTimeout == 0 {
		o.SettleTimeout = 20 * time.Second
	}
	if o.SettleTimeout < 0 {
		return nil, invalid("options.SettleTimeout", "is %v; give a positive duration, or 0 for the default", o.SettleTimeout)
	}
	if o.CutTokens == 0 {
		o.CutTokens = 500
	}
	if o.CutTokens < 0 || o.CutTokens > maxTokens {
		return nil, invalid("options.CutTokens", "is %d; give 1 to %d, or 0 for the default", o.CutTokens, maxTokens)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Guard{opts: o, records: newRecords(o.Keeper, o.OnRefused)}
	for name, measure := range o.Limits {
		g.money = g.money || o.Limiter != nil && measure.measuresMoney(name)
	}
	return g, nil
}

// Close waits until the Keeper has the records of all settled calls, and until the
// leases of SettleSoon are written. When ctx ends before, it gives up the pending records,
// calls Options.OnRefused for each, and returns ctx's error. It ends no call: a guard
// may continue and be closed again, as at the end of each invocation of a function.
func (g *Guard) Close(ctx context.Context) error {
	if err := g.checkUsable(ctx); err != nil {
		return err
	}
	return g.records.waitForPending(ctx)
}

// Pause pauses takes from a bucket of the limiter for d, because a provider asked for it; see
// dynalimit.RateLimiter.Pause. The limiter logs why. It fails with a *ValidationError without a limiter that is
// a Pauser.
func (g *Guard) Pause(ctx context.Context, entity, resource string, d time.Duration, why string) error {
	if err := g.checkUsable(ctx); err != nil {
		return err
	}
	limiter, ok := g.opts.Limiter.(Pauser)
	if !ok {
		return invalid("guard", "has no Limiter that can be paused; give a *dynalimit.RateLimiter")
	}
	return limiter.Pause(ctx, entity, resource, d, why)
}

// LimitsMoney reports whether Cost measures one of Options.Limits; false without a Limiter. New tests each
// Measure once, with the empty Usage.
func (g *Guard) LimitsMoney() bool { return g != nil && g.money }

// Start admits a call: it picks a label that has room in its quota and acquires the limits,
// or consumes nothing. Settle the Call or roll it back; `defer
// call.Rollback(ctx)` is safe.
//
// Errors: ErrNoPrice, *DeniedError with dynalimit.ErrLimitExceeded, dynalimit.ErrBlocked, dynalimit.ErrPaused or
// prices.ErrQuotaExceeded, *ValidationError of this package and of the other
// two, *dynalimit.UnavailableError, *fault.UnavailableError, and ctx's own.
func (g *Guard) Start(ctx context.Context, request Request) (*Call, error) {
	if err := g.checkUsable(ctx); err != nil {
		return nil, err
	}
	r, err := g.prepareRequest(request)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Call{RequestID: r.RequestID, Model: cmp.Or(r.Model, r.Resource), guard: g, request: r, since: g.opts.Now()}
	if err = g.admit(ctx, c); err != nil {
		return nil, wrapDenial(err, g.opts.Now())
	}
	return c, nil
}

// admit chooses the call's label and model and acquires its lease, which it stores in c. Without a Keeper or a
// Limiter it skips that part. After an error nothing is held.
func (g *Guard) admit(ctx context.Context, c *Call) error {
	if g.opts.Keeper != nil {
		if err := g.chooseLabel(ctx, c); err != nil {
			return err
		}
	}
	if g.opts.Limiter == nil {
		return nil
	}
	var err error
	if c.need, err = computeNeed(c.request.Limits, c.Model, held{estimate: c.request.Estimate, at: c.since, cut: g.opts.CutTokens}); err != nil {
		return err
	}
	c.lease, err = g.acquireEstimate(ctx, c.request, c.need)
	return err
}

// Do starts a call, runs fn and settles the usage that fn returns, also if fn
// fails after tokens were used. Without tokens in it, Do settles the count of the call's
// Meter. The zero Usage without a metered count means that nothing was used: Do gives
// everything back, as after a panic. fn may settle the call itself.
//
// A call that is cut keeps its prompt. If fn fails with context.Canceled or
// context.DeadlineExceeded, or with anything after ctx has ended, the request
// was probably in flight, and providers bill its prompt. Do settles it at
// Estimate.InputTokens with StatusCut. If fn knows that nothing was sent, it
// calls Rollback. If ctx has ended before fn, Do does not run fn.
//
// Errors are those of Start, or fn's, joined by an *UnsettledError or by a failed
// give-back. An impossible usage is a *ValidationError; the call
// then counts at the Meter's count, else at its estimate.
func (g *Guard) Do(ctx context.Context, request Request, fn func(context.Context, *Call) (Usage, error)) error {
	if fn == nil {
		return invalid("fn", "is nil; pass the function that makes the call")
	}
	c, err := g.Start(ctx, request)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), c.Rollback(ctx))
	}
	returned := false
	defer func() {
		if !returned { // a panic goes on after this
			_ = c.endWithUsage(ctx, Usage{}, errPanic, c.Settle)
		}
	}()
	usage, err := fn(ctx, c)
	returned = true
	return errors.Join(err, c.endWithUsage(ctx, usage, err, c.Settle))
}

var errPanic = errors.New("llm: panic")

// chooseLabel sets the call's label and model to the keeper's choice, and an empty resource to the model. If
// the keeper is unavailable and the request names both label and resource, it takes the request's and returns
// nil. It returns the keeper's other errors.
func (g *Guard) chooseLabel(ctx context.Context, c *Call) (err error) {
	r := &c.request
	c.Label, c.Model, err = g.opts.Keeper.ChooseLabel(ctx, r.Org, r.App, r.Label)
	if errors.Is(err, fault.ErrUnavailable) && r.Label != "" && r.Resource != "" {
		c.Label, c.Model = r.Label, cmp.Or(r.Model, r.Resource) // the keeper is not needed
		return nil
	}
	if err != nil {
		return err
	}
	c.priced = c.Model
	if r.Resource == "" {
		r.Resource = c.Model
	}
	return nil
}

// acquireEstimate acquires the estimated amounts, and waits in line up to Request.Wait after a denial. It
// lowers an amount above its burst, in n.estimate, to the burst, but neither below the prompt's amount nor an
// amount of money. It fails if the lease lacks a limit of money.
func (g *Guard) acquireEstimate(ctx context.Context, r Request, n need) (*dynalimit.Lease, error) {
	opts := append([]dynalimit.AcquireOption{dynalimit.WithIgnoreUnknown()}, r.AcquireOptions...)
	if r.Batch {
		opts = append(opts, dynalimit.WithBatch())
	}
	for {
		lease, err := g.opts.Limiter.Acquire(ctx, r.Entity, r.Resource, n.estimate, opts...)
		if err == nil {
			return g.requireMoneyLimit(ctx, r, n, lease)
		}
		switch {
		case capAmounts(n.estimate, n.least, r.Batch, err):
			continue
		case r.Wait > 0 && (errors.Is(err, dynalimit.ErrLimitExceeded) || errors.Is(err, dynalimit.ErrPaused)):
			lease, err = waitInLine(ctx, g.opts.Limiter.(Waiter), r, n, err, opts) //nolint:forcetypeassert // checkLimiterFields verified it
		}
		if err != nil {
			return nil, err
		}
		return g.requireMoneyLimit(ctx, r, n, lease)
	}
}

// requireMoneyLimit returns the lease, or rolls it back and returns a *ValidationError if it lacks a limit that
// Cost measures: the limiter skips unknown limits. It accepts a lease without statuses: its entity is
// unlimited, or the limiter had an outage.
func (g *Guard) requireMoneyLimit(ctx context.Context, r Request, n need, lease *dynalimit.Lease) (*dynalimit.Lease, error) {
	used := lease.Used() // without unknown limits
	for name := range n.money {
		if _, has := used[name]; has {
			continue
		}
		statuses := lease.Statuses()
		if len(statuses) == 0 || slices.ContainsFunc(statuses, func(s dynalimit.LimitStatus) bool { return s.Limit.Name == name }) {
			continue
		}
		ctx, cancel := g.lastingContext(ctx)
		defer cancel()
		return nil, errors.Join(
			invalid("limits["+name+"]", "measures money, but entity %q has no such limit on resource %q; set it, or leave its Measure out", r.Entity, r.Resource),
			lease.Rollback(ctx),
		)
	}
	return lease, nil
}

// prepareRequest returns a copy of the request with its defaults, a new RequestID if it has none, and copies of
// its maps. It fails with a *ValidationError for fields that limiter or keeper would refuse.
func (g *Guard) prepareRequest(r Request) (Request, error) {
	if err := r.Estimate.validate(); err != nil {
		return r, err
	}
	if g.opts.Limiter != nil && r.Entity == "" {
		return r, invalid("request.Entity", "is empty; name who is limited")
	}
	if err := g.checkLimiterFields(r); err != nil {
		return r, err
	}
	if r.Limits == nil {
		r.Limits = g.opts.Limits
	}
	if err := checkLimits("request.Limits", r.Limits); err != nil {
		return r, err
	}
	if r.RequestID == "" {
		r.RequestID = newRequestID()
	}
	if g.opts.Keeper == nil {
		if r.Label != "" {
			return r, invalid("request.Label", "is %q, but the guard has no Keeper to price it; leave it empty or give Options.Keeper", r.Label)
		}
		if r.Resource = cmp.Or(r.Resource, r.Model); r.Resource == "" {
			return r, invalid("request.Resource", "is empty, and without a Keeper there is no model to take for it; name the resource")
		}
	}
	r.Tags, r.Estimate.Tools = maps.Clone(r.Tags), maps.Clone(r.Estimate.Tools)
	if g.opts.Keeper == nil {
		return r, nil
	}
	const anyLabel = "any" // checked below
	record := prices.Usage{RequestID: r.RequestID, Label: cmp.Or(r.Label, anyLabel), Tags: r.Tags}
	return r, record.Validate()
}

// checkLimiterFields returns a *ValidationError for an entity, resource or wait that the limiter would refuse.
// It returns nil without a limiter, and accepts an empty resource.
func (g *Guard) checkLimiterFields(r Request) error {
	if g.opts.Limiter == nil {
		return nil
	}
	if reason := schema.EntityRule.Check(r.Entity); reason != "" {
		return invalid("request.Entity", "%s", reason)
	}
	if reason := schema.ResourceRule.Check(r.Resource); r.Resource != "" && reason != "" {
		return invalid("request.Resource", "%s", reason)
	}
	if _, ok := g.opts.Limiter.(Waiter); r.Wait < 0 || r.Wait > 0 && !ok {
		return invalid("request.Wait", "is %v; give 0 or more, and a Limiter that is a Waiter", r.Wait)
	}
	return nil
}

// lastingContext returns ctx without its cancellation and with SettleTimeout as its deadline, to finish
// writes after a call. Call the cancel function.
func (g *Guard) lastingContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.opts.SettleTimeout)
}

// checkUsable returns a *ValidationError for a guard that New did not make or a nil context.
func (g *Guard) checkUsable(ctx context.Context) error {
	if g == nil || g.opts.Now == nil {
		return invalid("guard", "was not made by New; make one with llm.New(&llm.Options{...})")
	}
	return problem.CheckContext(ctx, "llm")
}
