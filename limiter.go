// Package dynalimit limits the LLM spend of services. It has token-bucket rate limits, nested per key,
// project and organisation, exact across any number of processes. One DynamoDB table is the only
// server.
//
// A [Repository] knows the table: entities and their parents, and the limits configured for the system,
// a resource or an entity. A [RateLimiter] charges buckets: [RateLimiter.Acquire] takes several limits
// at once, all or nothing, at the entity and its parents. [RateLimiter.Wait] blocks until they fit. The
// [Lease] corrects the amounts once the true ones are known: Adjust by a difference, Settle to the used
// amounts, Rollback for a failed call.
//
//	client, err := awsclient.New(ctx, nil)
//	repo, err := dynalimit.NewRepository(client, "limits", nil)
//	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("tpm", 90_000)}})
//	lease, err := limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"tpm": 500})
//	defer lease.Rollback(ctx) // a no-op once settled
//	…
//	err = lease.Settle(ctx, dynalimit.Amounts{"tpm": reply.Tokens})
//
// A denial is a [*LimitExceededError] with the exact wait. A store that does not answer is an
// [*UnavailableError], never taken for a denial.
//
// No burst, retry, lost answer or crash lets more through than the limit. A clock that is wrong by some
// time lets through at most the refill of that time. Calls admitted by a policy while DynamoDB does not
// answer are counted, not limited. A warm acquire is one conditional update and no read. Callers of one
// process that arrive while it is in flight share the next. The design is in docs/design, the costs are
// in docs/cost.md.
package dynalimit

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/observe"
)

// RateLimiter charges token buckets in DynamoDB for calls. Make one with New for each process and share
// it: the more callers share it, the fewer writes each of them costs. It is safe for concurrent use.
// The zero value is not usable: methods that return an error return a *ValidationError for it.
//
// Which method to use:
//
// Acquire takes amounts now or denies at once. Wait blocks until they fit. Do acquires, calls a
// function and rolls back if it fails. Each of them returns, or passes on, a Lease, which corrects the
// amounts when the true ones are known.
//
// Check is a dry run of Acquire: it reports the decision, the available tokens and the wait, and writes
// nothing. Health reports whether the table answers. Close ends the limiter.
type RateLimiter struct {
	repo   *Repository
	desk   *desk
	closed atomic.Bool
	// closing is a channel that the first Close closes.
	closing        chan struct{}
	log            *slog.Logger
	detachListener func() // from the repository's outages
	own            ownCounters
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
	if repo.readable {
		if err := checkCompatible("", "options.Limits", o.Limits); err != nil {
			return nil, err
		}
	}
	o = o.withDefaults(repo)
	clock, stopwatch, sure := repo.clock.Now, repo.clock.Source, repo.clock.SureMS
	if o.Now != nil {
		clock, stopwatch, sure = o.Now, o.Now, func() int64 { return o.Now().UnixMilli() }
	}
	table := availability{repo.breaker, repo}
	d := &desk{
		table: table, buckets: repo.buckets, transact: repo.buckets.Transact, clock: clock, ownClock: o.Now != nil, machine: repo.machine, stopwatch: stopwatch, observer: shielded(o.Observer, o.Logger),
		share: o.LocalShare, timeout: o.Timeout, cleanup: o.CleanupTimeout, mode: o.ChargeMode,
	}
	d.hearsAcquires = d.observer.AcquireStart != nil || d.observer.AcquireEnd != nil || d.observer.Denied != nil
	d.routes = &routes{
		configs: repo.configs, namespace: repo.namespace, clock: repo.clock, nowMS: d.nowMS, tick: repo.tick, compatible: repo.readable,
		store: repo.buckets, table: table, fallback: config.NewFallback(storedLimits(o.Limits)), log: o.Logger, onUnavailable: o.OnUnavailable,
		lookups: newLookups(o.Unrecorded == RefuseUnrecorded, repo.clock.Source),
	}
	if o.StrangersParent != "" {
		d.routes.strangers = &hints{parent: o.StrangersParent}
	}
	lanes := lane.Options{
		Access: lane.Access{
			Store: repo.buckets, Keys: repo.keys, Configs: laneConfigs{repo.configs, d.routes.fallback},
			NowMS: d.nowMS, SureMS: sure, Tick: repo.tick, Table: table, Log: o.Logger,
		},
		Size: o.MaxBuckets, Patience: o.Timeout, Horizon: o.horizon(),
		Queues: repo.queues, Turns: &repo.turns, Locate: d.routes.locate, OnDrop: d.tellDropped,
	}
	if t := (writeTrace{d}); t.hears() {
		lanes.Trace = t
	}
	var err error
	if d.lanes, err = lane.New(lanes); err != nil {
		return nil, err
	}
	d.routes.lanes = d.lanes
	l := &RateLimiter{repo: repo, desk: d, closing: make(chan struct{}), log: o.Logger}
	l.detachListener = repo.listen(&hearer{notify: l.availabilityChanged, refilled: d.lanes.Refilled, loaded: d.observer.ConfigLoaded})
	return l, nil
}

// usable refuses calls of a limiter that New did not make, and without a
// context.
func (l *RateLimiter) usable(ctx context.Context) error {
	if l == nil || l.repo == nil {
		return invalid("limiter", "was not made by New; make one with dynalimit.New(repo, nil)")
	}
	if ctx == nil {
		return given(ctx)
	}
	return nil
}

// availabilityChanged reports to the observer that the table stopped answering, or answers again.
func (l *RateLimiter) availabilityChanged(s ddb.State) {
	if hear := l.desk.observer.AvailabilityChanged; hear != nil {
		hear(observe.AvailabilityChange{Table: l.repo.table, Open: s.Open, Cause: s.Cause})
	}
}

// Close refuses new acquires, ends waits with ErrClosed and waits for the leases that SettleSoon is
// settling. Then it writes the pending counter updates, if the table answers or answers one more probe.
// Each of these two steps takes at most Options.CleanupTimeout. Close returns when everything in flight
// has ended, or with ctx's error when ctx has ended.
//
// Counter updates that could not be written are lost. Close logs them and returns them as an
// *UnconfirmedError without an entity, and Health still shows them. A further Close tries again to
// write them, without another log line or event. An *UnsettledError counts the leases that may not be
// settled.
//
// Leases can still be adjusted, settled and rolled back after Close, but a correction that cannot be
// written then is not retried later.
func (l *RateLimiter) Close(ctx context.Context) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	first := !l.closed.Swap(true)
	if first {
		close(l.closing)
	}
	defer l.detachListener()
	settle, settled := context.WithTimeout(ctx, l.desk.cleanup)
	l.desk.settling.close(settle)
	settled()
	flush, cancel := context.WithTimeout(ctx, l.desk.cleanup)
	l.desk.lanes.Flush(flush)
	cancel()
	_, before := l.desk.lanes.Uncertain()
	l.desk.lanes.End()
	err := joined(l.desk.lanes.Drain(ctx), l.desk.settling.unsettled())
	err = joined(err, l.own.close(ctx))
	n, amounts := l.desk.lanes.Waiting()
	if n > 0 && first { // a further one can but write some of it
		l.desk.tellDropped(amounts)
	}
	_, dropped := l.desk.lanes.Uncertain() // with updates in flight to a silent bucket
	amounts = plan.Plus(amounts, plan.Plus(dropped, plan.Negated(before)))
	amounts = slices.DeleteFunc(slices.Clone(amounts), func(a plan.Signed) bool { return a.Amount == 0 })
	if len(amounts) > 0 {
		if first {
			l.log.WarnContext(ctx, "dynalimit: closed while buckets had to be told what was admitted without them; their counters miss it",
				slog.Int("buckets", n), slog.Any("tokens", tokensOf(amounts)))
		}
		lost := &UnconfirmedError{Amounts: tokensOf(amounts), NotWritten: true, Err: ErrClosed}
		return joined(err, lost)
	}
	return err
}
