// Package dynalimit limits what services spend on LLM calls: token-bucket rate
// limits, nested per key, project and organisation, exact across any number of
// processes, with one DynamoDB table as the only server.
//
// A [Repository] knows the table: entities and their parents, and the limits
// configured for the system, a resource or an entity. A [RateLimiter] charges
// buckets: [RateLimiter.Acquire] takes several limits at once, all or nothing,
// at the entity and its parents; [RateLimiter.Wait] blocks until they fit. The
// [Lease] it returns corrects the amounts once the true ones are known: Adjust
// by a difference, Settle at what was used, Rollback for a call that failed.
//
//	repo, err := dynalimit.NewRepository(dynamodb.NewFromConfig(cfg), "limits", nil)
//	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 90_000)}})
//	lease, err := limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 500})
//	defer lease.Rollback(ctx) // a no-op once settled
//	…
//	err = lease.Settle(ctx, dynalimit.Amounts{"tpm": reply.Tokens})
//
// A denial is a [*LimitExceededError] with the exact wait; a store that does not
// answer is an [*UnavailableError], never taken for a denial.
//
// No burst, retry, lost answer or crash lets more through than the limit. A wrong clock
// lets through at most what is refilled in the time by which it is wrong; what a policy
// admits while DynamoDB does not answer is counted, not limited. A warm acquire is one
// conditional update and no read; callers of one process that arrive while it is in flight
// share the next. The design is in docs/design, the costs are in docs/cost.md.
package dynalimit

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// limiterStore is what the limiter needs of the repository.
type limiterStore interface {
	config(ctx context.Context, entity, resource string, until time.Time) (*resolvedConfig, schema.Item, bool, error)
	decodeBucket(item schema.Item, slot int) (*schema.Image, error)
	join(t *bucketTransaction, at *lane.Lane, w *plan.Write, o schema.Op)
	transactBuckets(ctx context.Context, t *bucketTransaction, slot int) (verdict, map[int]*schema.Image, error)
}

// RateLimiter charges token buckets in DynamoDB for calls. Make one with New for each
// process and share it: the more callers share it, the fewer writes each of them costs.
// It is safe for concurrent use. The zero value is not usable: methods that return an
// error return a *ValidationError for it.
//
// Which method to use:
//
// Acquire takes amounts now or denies at once. Wait blocks until they fit. Do acquires,
// calls a function and rolls back if it fails. Each of them returns, or passes on, a
// Lease, which corrects the amounts when the true ones are known.
//
// Check answers what an acquire would do, what is available and in how long the amounts
// fit, and writes nothing. Health says whether the table answers. Close ends the limiter.
type RateLimiter struct {
	repo     *Repository
	store    limiterStore
	opts     Options
	lanes    *lane.Registry
	clock    func() time.Time
	fallback *fallbackLimits
	closed   atomic.Bool
	// closing is closed by the first Close.
	closing chan struct{}
	// deepOnce logs the first chain of parents that is too deep.
	deepOnce       sync.Once
	detachListener func() // from the repository's outages
	// systemPolicy is the system's own policy as it was last read.
	systemPolicy atomic.Pointer[UnavailablePolicy]
}

// New returns a limiter over a repository. It does no I/O and starts no
// goroutine. It fails with a *ValidationError.
func New(repo *Repository, opts *Options) (*RateLimiter, error) {
	if !repo.made() {
		return nil, invalid("repo", "is nil, or was not made by NewRepository; make one with dynalimit.NewRepository(client, table, nil)")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := repo.compatible("", "options.Limits", o.Limits); err != nil {
		return nil, err
	}
	o = o.withDefaults(repo)
	l := &RateLimiter{repo: repo, store: repo, opts: o, clock: repo.clock.Now, closing: make(chan struct{})}
	if o.Now != nil {
		l.clock = o.Now
	}
	if len(o.Limits) > 0 {
		l.fallback = &fallbackLimits{limits: o.Limits, compiled: *newBucketConfig(o.Limits, LevelOptions, false, 0, 0)}
	}
	var err error
	lanes := lane.Options{
		Store: buckets{repo, l.fallback}, Keys: repo.keys, Size: o.MaxBuckets, NowMS: l.nowMS, Tick: repo.tick,
		Patience: o.Timeout, Table: tableState{repo.breaker, repo}, Log: o.Logger, Horizon: o.horizon(),
		Queues: repo.queues, Turns: &repo.turns, Locate: l.locate,
	}
	if o.Observer != nil {
		lanes.Trace = writeTrace{l, o.Observer}
	}
	if l.lanes, err = lane.New(lanes); err != nil {
		return nil, err
	}
	l.detachListener = repo.listen(&hearer{notify: l.availabilityChanged, refilled: l.lanes.Refilled})
	return l, nil
}

// tableState is the health of a table as its breaker knows it.
type tableState struct {
	*ddb.Breaker
	repo *Repository
}

func (t tableState) Open() bool   { return t.State().Open }
func (t tableState) Cause() error { return t.State().Cause }

// Probe asks the table whether it answers, and the breaker hears of it.
func (t tableState) Probe(ctx context.Context) error { return t.repo.probe(ctx, t.repo.absentKey()) }

// availabilityChanged tells the observer that the table stopped answering, or answers
// again.
func (l *RateLimiter) availabilityChanged(s ddb.State) {
	if o := l.opts.Observer; o != nil {
		o.AvailabilityChanged(AvailabilityChange{Table: l.repo.table, Open: s.Open, Cause: s.Cause})
	}
}

func (l *RateLimiter) nowMS() int64 { return l.clock().UnixMilli() }

// Close refuses new acquires and ends waits with ErrClosed. If the table answers, or does
// when it is asked once more, Close tells buckets what was admitted without them, for
// Options.CleanupTimeout at most. It returns when everything in flight has ended, or with
// ctx's error when ctx has ended. What no bucket was told is lost: it is logged, Health
// still shows it, and Close returns it as an *UnconfirmedError of no entity. Leases can
// still be adjusted, settled and rolled back, but what cannot be written then is not kept
// for later.
func (l *RateLimiter) Close(ctx context.Context) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	if !l.closed.Swap(true) {
		close(l.closing)
	}
	defer l.detachListener()
	flush, cancel := context.WithTimeout(ctx, l.opts.CleanupTimeout)
	l.lanes.Flush(flush)
	cancel()
	l.lanes.End()
	err := l.lanes.Drain(ctx)
	if n, amounts := l.lanes.Waiting(); n > 0 {
		l.opts.Logger.WarnContext(ctx, "dynalimit: closed while buckets had to be told what was admitted without them; their counters miss it",
			slog.Int("buckets", n), slog.Any("tokens", tokensOf(amounts)))
		lost := &UnconfirmedError{Amounts: tokensOf(amounts), NotWritten: true, Err: ErrClosed}
		return joined(err, lost)
	}
	return err
}

// fallbackLimits are Options.Limits. The bucket configuration made from them is kept
// with the resolved configuration of an entity that has no limits of its own.
type fallbackLimits struct {
	limits   []Limit
	compiled plan.Config
}

// compile returns the configuration of a bucket; nil if nothing limits it. f is nil for
// a limiter without limits of its own.
func (f *fallbackLimits) compile(r *resolvedConfig) *plan.Config {
	if len(r.limits) > 0 {
		return r.compiled
	}
	if f == nil || r.unlimited {
		return nil
	}
	if known := r.fallback.Load(); known != nil && known.from == f {
		return &known.cfg
	}
	c := &compiledFallback{from: f, cfg: f.compiled}
	c.cfg.ReadAt, c.cfg.Tick = r.readAt, r.tick
	r.fallback.Store(c)
	return &c.cfg
}

// compiledFallback is a bucket configuration made from a limiter's own limits.
type compiledFallback struct {
	from *fallbackLimits
	cfg  plan.Config
}

// Options configures a RateLimiter. Every field is optional: the zero value, and nil
// passed to New, give the defaults that the fields name.
type Options struct {
	// Limits apply where no level of the stored configuration has any, or is unlimited.
	// Defaults to none.
	Limits []Limit
	// OnUnavailable applies when neither the call nor any level of the stored
	// configuration says what to do when DynamoDB does not answer. Defaults to Block.
	OnUnavailable UnavailablePolicy
	// LocalShare is this process's part of every limit while a bucket does not
	// answer, under Local: above 0, at most 1. A fleet of n processes sets 1/n,
	// so that all of them together stay within the limit. Defaults to 1.
	LocalShare float64
	// Timeout bounds what one Acquire spends on the store, retries and reads
	// included; time in the line of Wait does not count. Afterwards
	// OnUnavailable decides. Defaults to 2 s.
	Timeout time.Duration
	// Cascade says how an entity and its parents are charged. Defaults to
	// CascadeParallel.
	Cascade CascadeMode
	// Now is the clock. Defaults to the repository's.
	Now func() time.Time
	// Prefetch is for how long ahead the calls of a busy bucket are debited, so that
	// most of them are admitted from memory, without a request: from 250 ms to 10 s.
	// Then up to what a limit refills in that time, and what leases give back in it,
	// may be admitted above its burst, a denial may come that much too early, and
	// what is not used in time is lost to the bucket. Nothing is debited ahead that
	// would leave a bucket less than half full. Defaults to 0: every admission is a write, or part of one.
	Prefetch time.Duration
	// PrefetchResources are the resources that have another Prefetch than the
	// limiter's, 0 for none; it is copied. Defaults to no others.
	PrefetchResources map[string]time.Duration
	// MaxBuckets bounds how many buckets are remembered: each takes 0.6 kB with
	// one limit and 1.1 kB with ten, beside its configuration
	// (RepositoryOptions.ConfigCacheSize): a million with two limits take 1 GB. One
	// that was forgotten costs one read more at its next use. Defaults to 100,000.
	MaxBuckets int
	// CleanupTimeout bounds what a lease writes after its caller's context has
	// ended, and the give-backs of a denied cascade. Defaults to 10 s.
	CleanupTimeout time.Duration
	// Observer hears of acquires and writes. Defaults to nobody.
	Observer Observer
	// Logger receives what an operator should know. Defaults to the
	// repository's.
	Logger *slog.Logger
}

func (o Options) validate() error {
	if len(o.Limits) > 0 {
		if _, err := normalizeLimits("options.Limits", o.Limits); err != nil {
			return err
		}
	}
	if err := checkPolicy("options.OnUnavailable", o.OnUnavailable); err != nil {
		return err
	}
	if err := checkCascade("options.Cascade", o.Cascade); err != nil {
		return err
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

func (o Options) checkTimes() error {
	if o.Timeout < 0 {
		return invalid("options.Timeout", "is %v; give a positive duration, or 0 for the default", o.Timeout)
	}
	if o.CleanupTimeout < 0 {
		return invalid("options.CleanupTimeout", "is %v; give a positive duration, or 0 for the default", o.CleanupTimeout)
	}
	return checkNow(o.Now)
}

func (o Options) withDefaults(repo *Repository) Options {
	o.PrefetchResources = maps.Clone(o.PrefetchResources) // the caller may go on changing its own
	if len(o.Limits) > 0 {
		o.Limits, _ = normalizeLimits("options.Limits", o.Limits) // validated
	}
	if o.OnUnavailable == "" {
		o.OnUnavailable = Block
	}
	if o.Cascade == "" {
		o.Cascade = CascadeParallel
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

func checkPrefetch(field string, d time.Duration) error {
	if d != 0 && (d < leastPrefetch || d > mostPrefetch) {
		return invalid(field, "is %v; give %v to %v, or 0 for none", d, leastPrefetch, mostPrefetch)
	}
	return nil
}

func (o Options) checkPrefetches() error {
	for resource, d := range o.PrefetchResources {
		field := "options.PrefetchResources[" + resource + "]"
		if reason := schema.CheckResource(resource); reason != "" {
			return invalid(field, "the resource %s", reason)
		}
		if err := checkPrefetch(field, d); err != nil {
			return err
		}
	}
	return checkPrefetch("options.Prefetch", o.Prefetch)
}

// horizon says how long ahead a resource's calls are debited; nil if none are.
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

func checkPolicy(field string, p UnavailablePolicy) error {
	if p != "" && p != Block && p != Allow && p != Local {
		return invalid(field, "is %q; give dynalimit.Block, dynalimit.Allow or dynalimit.Local", p)
	}
	return nil
}

func checkCascade(field string, m CascadeMode) error {
	if m != "" && m != CascadeParallel && m != CascadeTransaction {
		return invalid(field, "is %q; give dynalimit.CascadeParallel or dynalimit.CascadeTransaction", m)
	}
	return nil
}

// AcquireOption changes one call.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	limits        []Limit
	onUnavailable UnavailablePolicy
	cascade       CascadeMode
	ignoreUnknown bool
}

// WithLimits adds limits to those of the entity, or replaces those of the same name; it
// removes none. The lease keeps them. Callers that disagree about the limits of one
// bucket take turns rewriting it, which is safe but slow.
func WithLimits(limits ...Limit) AcquireOption {
	return func(o *acquireOptions) { o.limits = append(o.limits, limits...) }
}

// WithOnUnavailable says what this call does when DynamoDB does not answer.
func WithOnUnavailable(p UnavailablePolicy) AcquireOption {
	return func(o *acquireOptions) { o.onUnavailable = p }
}

// WithCascade says how this call charges the entity and its parents.
func WithCascade(m CascadeMode) AcquireOption {
	return func(o *acquireOptions) { o.cascade = m }
}

// WithIgnoreUnknown skips the amounts of limits that no level has, also in what the lease
// is later corrected by. It is for callers that measure more than every entity is limited
// by. A misspelt name is skipped too, so give it only where the names are known to be
// right. Two things are a *ValidationError all the same: a limit that a level has, but not
// the one that won, because the entity would have it lifted unseen; and a call of which no
// name is a limit, because nothing would limit it.
func WithIgnoreUnknown() AcquireOption {
	return func(o *acquireOptions) { o.ignoreUnknown = true }
}
