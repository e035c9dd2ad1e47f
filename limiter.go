package dynalimit

import (
	"context"
	"log/slog"
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
// Check, Available and TimeUntilAvailable answer what an acquire would do, and write
// nothing. Health says whether the table answers. Close ends the limiter.
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
		Patience: o.Timeout, Table: tableState{repo.breaker}, Log: o.Logger, Horizon: o.horizon(),
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
type tableState struct{ *ddb.Breaker }

func (t tableState) Open() bool   { return t.State().Open }
func (t tableState) Cause() error { return t.State().Cause }

// availabilityChanged tells the observer that the table stopped answering, or answers
// again.
func (l *RateLimiter) availabilityChanged(s ddb.State) {
	if o := l.opts.Observer; o != nil {
		o.AvailabilityChanged(AvailabilityChange{Table: l.repo.table, Open: s.Open, Cause: s.Cause})
	}
}

func (l *RateLimiter) nowMS() int64 { return l.clock().UnixMilli() }

// Close refuses new acquires and ends waits with ErrClosed. If the table answers, it
// charges what buckets are owed. It returns when everything in flight has ended, or with
// ctx's error when ctx has ended. What is owed and cannot be charged is lost, and
// logged. Leases can still be adjusted, settled and rolled back, but what cannot be
// written then is not kept for later.
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
	if n, amounts := l.lanes.Backlog(); n > 0 {
		l.opts.Logger.WarnContext(ctx, "dynalimit: closed while buckets were owed what was admitted without them; it is not charged",
			slog.Int("buckets", n), slog.Any("tokens", tokensOf(amounts)))
	}
	return l.lanes.Drain(ctx)
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
