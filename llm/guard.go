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

// Limiter is what a Guard needs of a *dynalimit.RateLimiter.
type Limiter interface {
	// Acquire takes amounts from limits, all or nothing, as
	// dynalimit.RateLimiter.Acquire does.
	Acquire(ctx context.Context, entity, resource string, amounts dynalimit.Amounts, opts ...dynalimit.AcquireOption) (*dynalimit.Lease, error)
}

// Keeper is what a Guard needs of a keeper of budgets. A *budget.Keeper is one, and so is a
// *budgetclient.Client of one that is reached over HTTP.
type Keeper interface {
	// ChooseLabel returns the label that an app may use now, and its model. It is the label that
	// is given if that has room, and the keeper's choice if none is given.
	//
	// Errors: *prices.QuotaExceededError, *fault.ValidationError, *fault.UnavailableError.
	ChooseLabel(ctx context.Context, org, app, label string) (chosen, model string, err error)
	// CountCalls counts what 1 to 100 calls of an app cost, each once under its request id. It
	// returns an error for each call, nil if it is counted; err is for all.
	CountCalls(ctx context.Context, org, app string, calls []prices.Usage) (errs []error, err error)
}

// Options configure a Guard. It needs a Limiter, a Keeper or both.
type Options struct {
	// Limiter limits the rate of calls. Nil: no rate limits.
	Limiter Limiter
	// Keeper keeps the budgets. Nil: no budgets.
	Keeper Keeper
	// Limits says how much of each limit a call takes. Defaults to
	// DefaultLimits.
	Limits map[string]Measure
	// CutTokens is how many output tokens Cost charges beyond what was seen of a call that was
	// cut, never more in all than the reply may have. Defaults to 500: two seconds of a model
	// that writes 250 tokens in one.
	CutTokens int64
	// SettleTimeout bounds what is written after a call, whatever the caller's context.
	// Defaults to 20 s.
	SettleTimeout time.Duration
	// OnRefused is told of records that the Keeper refuses for good, and of those that
	// Close gives up, on a goroutine of its own. Defaults to an error of slog.Default.
	OnRefused func(Refused)
	// OnSettled is told how each call ended, once: on the goroutine that ended it, or on another
	// behind it. It must be quick, and safe for concurrent use. Defaults to nobody.
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

// checkParts refuses a guard with nothing to guard by.
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

// New makes a Guard; it does no I/O. It fails with a *ValidationError.
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
		g.money = g.money || o.Limiter != nil && measure.ofMoney(name)
	}
	return g, nil
}

// Close waits until the Keeper has the records of all calls that were settled, and until the
// leases of those that were settled soon are. When ctx ends before, it gives up the records that
// still wait, tells Options.OnRefused of each, and returns ctx's error. It ends no call: a guard
// may go on and be closed again, as at the end of each invocation of a function.
func (g *Guard) Close(ctx context.Context) error {
	if err := g.usable(ctx); err != nil {
		return err
	}
	return g.records.drain(ctx)
}

// Pause pauses a bucket of the limiter, because a provider said stop; see
// dynalimit.RateLimiter.Pause. It fails with a *ValidationError without a limiter that is a Pauser.
func (g *Guard) Pause(ctx context.Context, entity, resource string, d time.Duration, why string) error {
	if err := g.usable(ctx); err != nil {
		return err
	}
	limiter, ok := g.opts.Limiter.(Pauser)
	if !ok {
		return invalid("guard", "has no Limiter that can be paused; give a *dynalimit.RateLimiter")
	}
	return limiter.Pause(ctx, entity, resource, d, why)
}

// LimitsMoney reports whether Cost measures one of Options.Limits. New finds that out: it asks each
// Measure once, for the empty Usage.
func (g *Guard) LimitsMoney() bool { return g != nil && g.money }

// Start admits a call: it picks a label that has room in its quota and acquires the limits,
// or consumes nothing. The Call must be settled or rolled back; `defer
// call.Rollback(ctx)` is safe.
//
// Errors: ErrNoPrice, *DeniedError with dynalimit.ErrLimitExceeded, dynalimit.ErrBlocked, dynalimit.ErrPaused or
// prices.ErrQuotaExceeded, *ValidationError of this package and of the other
// two, *dynalimit.UnavailableError, *fault.UnavailableError, and ctx's own.
func (g *Guard) Start(ctx context.Context, request Request) (*Call, error) {
	if err := g.usable(ctx); err != nil {
		return nil, err
	}
	r, err := g.prepared(request)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &Call{RequestID: r.RequestID, Model: cmp.Or(r.Model, r.Resource), guard: g, request: r, since: g.opts.Now()}
	if err = g.admit(ctx, c); err != nil {
		return nil, denied(err, g.opts.Now())
	}
	return c, nil
}

// admit fills in what a call uses and holds, or leaves nothing held.
func (g *Guard) admit(ctx context.Context, c *Call) error {
	if g.opts.Keeper != nil {
		if err := g.choose(ctx, c); err != nil {
			return err
		}
	}
	if g.opts.Limiter == nil {
		return nil
	}
	var err error
	if c.need, err = needOf(c.request.Limits, c.Model, held{estimate: c.request.Estimate, at: c.since, cut: g.opts.CutTokens}); err != nil {
		return err
	}
	c.lease, err = g.acquire(ctx, c.request, c.need)
	return err
}

// Do starts a call, runs fn and settles the usage it returns, also when fn
// fails after tokens were used. Without tokens in it, what the call's Meter saw
// is settled. The zero Usage without such says that nothing was used, and
// everything is given back; so it is when fn panics. fn may settle the call
// itself.
//
// A call that is cut keeps its prompt: when fn fails with context.Canceled or
// context.DeadlineExceeded, or with anything after ctx has ended, the request
// was probably under way, and providers bill its prompt. It is settled at
// Estimate.InputTokens with StatusCut. Where fn knows that nothing was sent, it
// calls Rollback. When ctx has ended before fn, fn is not run.
//
// Errors as of Start, or fn's, joined by an *UnsettledError or by what could
// not be given back. A usage that cannot be is a *ValidationError, and the call
// is then counted at what its Meter saw, else at its estimate.
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
			_ = c.end(ctx, Usage{}, errPanic, c.Settle)
		}
	}()
	usage, err := fn(ctx, c)
	returned = true
	return errors.Join(err, c.end(ctx, usage, err, c.Settle))
}

var errPanic = errors.New("llm: panic")

// choose picks the call's label, which has room in its quota as far as the keeper knows.
func (g *Guard) choose(ctx context.Context, c *Call) (err error) {
	r := &c.request
	c.Label, c.Model, err = g.opts.Keeper.ChooseLabel(ctx, r.Org, r.App, r.Label)
	if errors.Is(err, fault.ErrUnavailable) && r.Label != "" && r.Resource != "" {
		c.Label, c.Model = r.Label, cmp.Or(r.Model, r.Resource) // of a call for which nothing needs to be asked
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

// acquire takes the estimate of every limit that the entity has. One that exceeds a
// burst is lowered to it, but not below what the prompt takes, and not of money.
func (g *Guard) acquire(ctx context.Context, r Request, n need) (*dynalimit.Lease, error) {
	opts := append([]dynalimit.AcquireOption{dynalimit.WithIgnoreUnknown()}, r.AcquireOptions...)
	for {
		lease, err := g.opts.Limiter.Acquire(ctx, r.Entity, r.Resource, n.estimate, opts...)
		if err == nil {
			return g.limited(ctx, r, n, lease)
		}
		switch {
		case capped(n.estimate, n.least, err):
			continue
		case r.Wait > 0 && (errors.Is(err, dynalimit.ErrLimitExceeded) || errors.Is(err, dynalimit.ErrPaused)):
			lease, err = waitInLine(ctx, g.opts.Limiter.(Waiter), r, n, err, opts) //nolint:forcetypeassert // checkCharged has looked
		}
		if err != nil {
			return nil, err
		}
		return g.limited(ctx, r, n, lease)
	}
}

// limited gives a lease back that was granted without a limit on money: the limiter skips
// limits that nobody has. Of an entity that is unlimited, and in an outage, it holds none.
func (g *Guard) limited(ctx context.Context, r Request, n need, lease *dynalimit.Lease) (*dynalimit.Lease, error) {
	statuses := lease.Statuses()
	for name := range n.money {
		has := slices.ContainsFunc(statuses, func(s dynalimit.LimitStatus) bool { return s.Limit.Name == name })
		if has || len(statuses) == 0 {
			continue
		}
		ctx, cancel := g.lasting(ctx)
		defer cancel()
		return nil, errors.Join(
			invalid("limits["+name+"]", "measures money, but entity %q has no such limit on resource %q; set it, or leave its Measure out", r.Entity, r.Resource),
			lease.Rollback(ctx),
		)
	}
	return lease, nil
}

// prepared checks a request and fills in its defaults.
func (g *Guard) prepared(r Request) (Request, error) {
	if err := r.Estimate.validate(); err != nil {
		return r, err
	}
	if g.opts.Limiter != nil && r.Entity == "" {
		return r, invalid("request.Entity", "is empty; name who is limited")
	}
	if err := g.checkCharged(r); err != nil {
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
	const anyLabel = "any" // it is checked with the ordering
	record := prices.Usage{RequestID: r.RequestID, Label: cmp.Or(r.Label, anyLabel), Tags: r.Tags}
	return r, record.Validate()
}

// checkCharged checks what the limiter would refuse.
func (g *Guard) checkCharged(r Request) error {
	if g.opts.Limiter == nil {
		return nil
	}
	if reason := schema.CheckEntity(r.Entity); reason != "" {
		return invalid("request.Entity", "%s", reason)
	}
	if reason := schema.CheckResource(r.Resource); r.Resource != "" && reason != "" {
		return invalid("request.Resource", "%s", reason)
	}
	if _, ok := g.opts.Limiter.(Waiter); r.Wait < 0 || r.Wait > 0 && !ok {
		return invalid("request.Wait", "is %v; give 0 or more, and a Limiter that is a Waiter", r.Wait)
	}
	return nil
}

// lasting is ctx without its end, bounded anew: what was begun is finished.
func (g *Guard) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.opts.SettleTimeout)
}

// usable refuses calls of a guard that New did not make, and without a context.
func (g *Guard) usable(ctx context.Context) error {
	if g == nil || g.opts.Now == nil {
		return invalid("guard", "was not made by New; make one with llm.New(&llm.Options{...})")
	}
	return problem.NoContext(ctx, "llm")
}
