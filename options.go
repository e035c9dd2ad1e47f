package dynalimit

import (
	"log/slog"
	"maps"
	"time"

	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/observe"
)

// Options configures a RateLimiter. Every field is optional: the zero value, and nil
// passed to New, give the defaults that the fields name.
type Options struct {
	// Limits apply to calls without stored limits: no source has limits or is unlimited. Defaults to none.
	Limits []Limit
	// OnUnavailable is the outage policy of calls for which neither an option nor the stored
	// configuration has one. Defaults to Refuse.
	OnUnavailable UnavailablePolicy
	// LocalShare is this process's part of every limit while a bucket does not
	// answer, under Local: above 0, at most 1. A fleet of n processes sets 1/n,
	// so that all of them together stay within the limit. Defaults to 1.
	LocalShare float64
	// Unrecorded is the policy for calls of an entity without a record. RefuseUnrecorded fails them with an
	// *UnrecordedError. A source of the entity, for the resource, its groups or all
	// resources, counts as a record. Parents need no record. A new record is seen within a second.
	// Lookups that find no record are limited: 200 a second for entities that this process has not read
	// yet, 20 a second for others. Calls above that fail with a RetryAfter of a second. While the table
	// does not answer, OnUnavailable decides. Defaults to AdmitUnrecorded.
	Unrecorded UnrecordedPolicy
	// StrangersParent is the parent of entities that have no parent in their record or from the call
	// (WithParent). Detached entities get no parent, so detach StrangersParent's own ancestors. It
	// needs a record. Defaults to none.
	StrangersParent string
	// Timeout bounds the time that one Acquire spends on the store, retries and reads included. Time in
	// the line of Wait does not count. Afterwards OnUnavailable decides. Defaults to 2 s.
	Timeout time.Duration
	// ChargeMode is the way to charge an entity and its parents. Defaults to ChargeParallel.
	ChargeMode ChargeMode
	// Now is the clock. Defaults to the repository's.
	Now func() time.Time
	// Prefetch is the time for which the calls of a busy bucket are debited ahead, from 250 ms to 10 s.
	// Most calls are then admitted from memory, without a request.
	//
	// The price: up to the refill and the give-backs of that time may be admitted above a limit's
	// burst, a denial may come that much too early, and prefetched tokens that are not used in time are
	// lost. A prefetch leaves a bucket at least half full. Defaults to 0: every admission is a write,
	// or part of one.
	Prefetch time.Duration
	// PrefetchResources are the resources, groups included, that have another Prefetch than the
	// limiter's; 0 turns it off. It is copied. Defaults to no resources.
	PrefetchResources map[string]time.Duration
	// MaxBuckets bounds the number of buckets in memory. Each takes 0.6 kB with one limit and 1.1 kB
	// with ten, plus its configuration (RepositoryOptions.ConfigCacheSize): a million with two limits
	// take 1 GB. The next use of an evicted bucket costs one more read. Defaults to 100,000.
	MaxBuckets int
	// CleanupTimeout bounds each Adjust, Settle and Rollback of a lease, with the wait for an earlier correction. The
	// end of the caller's context does not. It also bounds the give-backs of a denied cascade. Defaults to 10 s.
	CleanupTimeout time.Duration
	// Observer receives the events of acquires, leases and writes. Defaults to none.
	Observer observe.Observer
	// Logger receives the messages for operators. Defaults to the repository's.
	Logger *slog.Logger
}

// validate returns a *ValidationError for the first invalid option; nil if all are valid. It changes nothing.
func (o Options) validate() error {
	if len(o.Limits) > 0 {
		if _, err := checkLimits("options.Limits", o.Limits); err != nil {
			return err
		}
	}
	if err := checkPolicy("options.OnUnavailable", o.OnUnavailable); err != nil {
		return err
	}
	if err := checkChargeMode("options.ChargeMode", o.ChargeMode); err != nil {
		return err
	}
	if o.Unrecorded != "" && o.Unrecorded != AdmitUnrecorded && o.Unrecorded != RefuseUnrecorded {
		return invalid("options.Unrecorded", "is %q; give dynalimit.AdmitUnrecorded or dynalimit.RefuseUnrecorded", o.Unrecorded)
	}
	if o.StrangersParent != "" {
		if err := checkEntityID("options.StrangersParent", o.StrangersParent); err != nil {
			return err
		}
	}
	if o.MaxBuckets < 0 {
		return invalid("options.MaxBuckets", "is %d; give a positive number, or 0 for the default", o.MaxBuckets)
	}
	if o.LocalShare < 0 || o.LocalShare > 1 || o.LocalShare != o.LocalShare {
		return invalid("options.LocalShare", "is %v; give a share above 0 and up to 1, or 0 for the default of 1", o.LocalShare)
	}
	if err := o.checkPrefetches(); err != nil {
		return err
	}
	return o.checkTimes()
}

// checkTimes returns a *ValidationError for a negative timeout, and for a clock with a time that cannot be
// stored; nil otherwise. It calls the clock once.
func (o Options) checkTimes() error {
	if o.Timeout < 0 {
		return invalid("options.Timeout", "is %v; give a positive duration, or 0 for the default", o.Timeout)
	}
	if o.CleanupTimeout < 0 {
		return invalid("options.CleanupTimeout", "is %v; give a positive duration, or 0 for the default", o.CleanupTimeout)
	}
	return checkNow(o.Now)
}

// withDefaults returns valid options with defaults for the unset ones, except Now, Unrecorded and the prefetch
// times. It copies the caller's map and limits.
func (o Options) withDefaults(repo *Repository) Options {
	o.PrefetchResources = maps.Clone(o.PrefetchResources) // the caller may go on changing its own
	if len(o.Limits) > 0 {
		o.Limits, _ = checkLimits("options.Limits", o.Limits) // validated
	}
	if o.OnUnavailable == "" {
		o.OnUnavailable = Refuse
	}
	if o.ChargeMode == "" {
		o.ChargeMode = ChargeParallel
	}
	if o.MaxBuckets == 0 {
		o.MaxBuckets = 100_000
	}
	if o.LocalShare == 0 {
		o.LocalShare = 1
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.CleanupTimeout == 0 {
		o.CleanupTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = repo.log
	}
	return o
}

const (
	// leastPrefetch and mostPrefetch bound Options.Prefetch. A shorter time saves
	// nothing; with a longer one, limits mean little.
	leastPrefetch, mostPrefetch = 250 * time.Millisecond, 10 * time.Second
)

// checkPrefetch returns a *ValidationError for a prefetch time that is neither 0 nor within 250 ms to 10 s.
func checkPrefetch(field string, d time.Duration) error {
	if d != 0 && (d < leastPrefetch || d > mostPrefetch) {
		return invalid(field, "is %v; give %v to %v, or 0 for none", d, leastPrefetch, mostPrefetch)
	}
	return nil
}

// checkPrefetches returns a *ValidationError for a bad resource or time in PrefetchResources, and for a bad
// Prefetch; nil if all are valid.
func (o Options) checkPrefetches() error {
	for resource, d := range o.PrefetchResources {
		field := "options.PrefetchResources[" + resource + "]"
		if reason := schema.ResourceRule.Check(resource); reason != "" {
			return invalid(field, "the resource %s", reason)
		}
		if err := checkPrefetch(field, d); err != nil {
			return err
		}
	}
	return checkPrefetch("options.Prefetch", o.Prefetch)
}

// horizon returns a function from a resource to its prefetch time, 0 if it has none. It returns nil if neither
// Prefetch nor PrefetchResources is set.
func (o Options) horizon() func(resource string) time.Duration {
	if o.Prefetch == 0 && len(o.PrefetchResources) == 0 {
		return nil
	}
	return func(resource string) time.Duration {
		if d, ok := o.PrefetchResources[resource]; ok {
			return d
		}
		return o.Prefetch
	}
}

// UnrecordedPolicy is the decision of a limiter about calls of an entity without a record.
type UnrecordedPolicy string

const (
	// AdmitUnrecorded treats an entity without a record as any other, by the sources that apply to it.
	AdmitUnrecorded UnrecordedPolicy = "admit"
	// RefuseUnrecorded refuses the calls of an entity without a record.
	RefuseUnrecorded UnrecordedPolicy = "refuse"
)

// AcquireOption changes one call.
type AcquireOption func(*acquireOptions)

type acquireOptions struct{ call.Options }

// WithLimits adds limits to those of the entity, or replaces those of the same name; it removes no
// limits. The lease keeps them. Callers that disagree about the limits of one bucket take turns
// rewriting it, which is safe but slow.
func WithLimits(limits ...Limit) AcquireOption {
	return func(o *acquireOptions) { o.Limits = append(o.Limits, storedLimits(limits)...) }
}

// WithOnUnavailable sets the outage policy of this call.
func WithOnUnavailable(p UnavailablePolicy) AcquireOption {
	return func(o *acquireOptions) { o.OnUnavailable = call.Policy(p) }
}

// WithChargeMode sets the charge mode of this call.
func WithChargeMode(m ChargeMode) AcquireOption {
	return func(o *acquireOptions) { o.Mode = call.Mode(m) }
}

// WithIgnoreUnknown skips the amounts of limits that no source has, also in later corrections of the
// lease. It is for callers that measure more than the limits of every entity. A misspelt name is
// skipped too, so use it only where the names are known to be right.
//
// Two cases remain a *ValidationError. One is a limit that a source has, but not the one that won:
// skipping it would lift the limit unseen. The other is a call without a single known limit, because
// nothing would limit it.
func WithIgnoreUnknown() AcquireOption {
	return func(o *acquireOptions) { o.IgnoreUnknown = true }
}

// WithBatch marks a call that leaves Limit.Reserve of each limit to interactive calls, by default a fifth of the
// burst. Interactive calls never stand behind batch calls. A request above the burst less the reserve is
// ErrExceedsBurst. LimitStatus.Remaining of a batch call is what it can take.
//
// The reserve is exact if the amounts are upper bounds of the real use: Lease.Settle with more takes from it.
// Lease.Consume keeps the class, and batch calls use no prefetched tokens (Options.Prefetch).
func WithBatch() AcquireOption {
	return func(o *acquireOptions) { o.Batch = true }
}

// WithParent sets the parent of an entity without a record, or with a record that names no parent.
// Often the token of a request names the team, and another system makes the record. The parent counts
// by the limits of sources made for it or for its plan. If the record has a parent, or is Detached, the
// record wins, and the first difference is logged. A lease keeps its first parent.
//
// Take the id from a verified source, such as the claims of a signed token, and never from a header:
// the choice of the parent decides whose limits are charged.
//
// A parent without a record, one that is being deleted, the entity's own id and a bad id are a
// *ValidationError of the field "WithParent". A parent with more than 6 levels above it is ErrTooDeep.
func WithParent(id string) AcquireOption {
	return func(o *acquireOptions) {
		g := o.givenOrNew()
		g.Parent, g.ByCall = id, true
	}
}

// WithPlan sets the plan of an entity without a record, or with a record that names no plan. A plan in
// the record wins, and the first difference is logged. Take the name from a verified source, such as
// the claims of a signed token, and never from a header. A bad name is a *ValidationError of the field
// "WithPlan". A plan without limits has no effect.
//
// All callers of an entity should give the same plan. Callers with different plans rewrite its bucket
// in turn: for a second each uses the limits that the other wrote. The bucket never admits more than
// the larger of them. A caller without the plan uses the limits without it at once, and callers with
// the plan then wait a second each time.
func WithPlan(name string) AcquireOption {
	return func(o *acquireOptions) {
		g := o.givenOrNew()
		g.Plan, g.Plans = name, true
	}
}

// givenOrNew returns o.Given, the parent and plan that a call gives, for an option to set. It first makes it if
// it is nil.
func (o *acquireOptions) givenOrNew() *call.Given {
	if o.Given == nil {
		o.Given = &call.Given{}
	}
	return o.Given
}

// checkGiven returns a *ValidationError, before any read, for an invalid plan, and for a parent that is empty,
// invalid or the entity itself. It ignores a plan or parent that the call does not give.
func checkGiven(g *call.Given, entity string) error {
	if g.Plans {
		if err := checkEntityID("WithPlan", g.Plan); err != nil {
			return err
		}
	}
	if !g.ByCall {
		return nil
	}
	if g.Parent == "" {
		return invalid(g.Field(), "is empty; give the id of the parent, or leave the option out")
	}
	if err := checkEntityID(g.Field(), g.Parent); err != nil {
		return err
	}
	if g.Parent == entity {
		return invalid(g.Field(), "is %q, the entity itself; give the id of its parent, or leave the option out", entity)
	}
	return nil
}

// applyOptions applies the options of an entity's call, except nil ones, and returns them in one struct. Their
// limits get defaults and are sorted by name. It returns a *ValidationError for the first invalid one.
func applyOptions(opts []AcquireOption, entity string) (call.Options, error) {
	var o acquireOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if err := checkPolicy("WithOnUnavailable", UnavailablePolicy(o.OnUnavailable)); err != nil {
		return o.Options, err
	}
	if err := checkChargeMode("WithChargeMode", ChargeMode(o.Mode)); err != nil {
		return o.Options, err
	}
	if o.Given != nil {
		if err := checkGiven(o.Given, entity); err != nil {
			return o.Options, err
		}
	}
	if len(o.Limits) == 0 {
		return o.Options, nil
	}
	checked, at, reason := schema.CheckLimits(o.Limits)
	if reason != "" {
		return o.Options, invalid("WithLimits"+at, "%s", reason)
	}
	o.Limits = checked
	return o.Options, nil
}
