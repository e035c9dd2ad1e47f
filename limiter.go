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
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/bookkeeping"
	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/observe"
)

func init() {
	bookkeeping.Limiter = func(limiter any) any { return limiter.(*RateLimiter).bookkeeping() }
}

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
	repo *Repository
	// options are the validated ones, with their defaults. desk makes the calls.
	options Options
	desk    *call.Desk
	reports *reports // to the observer
	// settling are the leases that SettleSoon settles.
	settling settlements
	// strangers is the parent of entities without another one; nil if there is none.
	strangers *call.Given
	closed    atomic.Bool
	// closing is a channel that the first Close closes.
	closing        chan struct{}
	log            *slog.Logger
	detachListener func() // from the repository's outages
	own            ownCounters
}

// New returns a limiter over a repository, and registers it there for outages and changes until Close; nil
// options are the defaults. It does no I/O and starts no goroutine. It fails with a *ValidationError for a bad
// repository or option.
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
	l := &RateLimiter{repo: repo, options: o, closing: make(chan struct{}), log: o.Logger}
	l.reports = newReports(shielded(o.Observer, o.Logger), repo.layout)
	observer := l.reports.Observer
	d := &call.DeskOptions{
		Configs: repo.configs.Cache, Namespace: repo.namespace, Breaker: repo.breaker, Buckets: repo.buckets, Keys: repo.keys, Queues: repo.queues, Turns: &repo.turns, Passes: repo.passes,
		RepoClock: repo.clock, Machine: repo.machine, Now: o.Now, Limits: storedLimits(o.Limits), Policy: call.Policy(o.OnUnavailable),
		Mode: call.Mode(o.ChargeMode), Share: o.LocalShare, Timeout: o.Timeout, Cleanup: o.CleanupTimeout, RefuseUnrecorded: o.Unrecorded == RefuseUnrecorded,
		Size: o.MaxBuckets, Horizon: o.horizon(), Observer: observer, OnDrop: l.reports.reportDrop, Closing: l.closing, Log: o.Logger,
	}
	if o.StrangersParent != "" {
		l.strangers = &call.Given{Parent: o.StrangersParent}
		d.Strangers = l.strangers
	}
	if observer.WriteStart != nil || observer.WriteEnd != nil || observer.Crossed != nil || observer.PacingChanged != nil {
		d.Trace = writeTrace{l.reports}
	}
	var err error
	if l.desk, err = call.NewDesk(d); err != nil {
		return nil, err
	}
	l.reports.desk = l.desk
	l.detachListener = repo.listen(&hearer{notify: l.availabilityChanged, refilled: l.desk.Lanes.MarkRefilled, loaded: observer.ConfigLoaded})
	return l, nil
}

// availabilityChanged reports to the observer, if it has a function for it, that the table stopped answering,
// with the cause, or answers again.
func (l *RateLimiter) availabilityChanged(s ddb.State) {
	if hear := l.reports.AvailabilityChanged; hear != nil {
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
	if err := l.checkUsable(ctx); err != nil {
		return err
	}
	first := !l.closed.Swap(true)
	if first {
		close(l.closing)
	}
	defer l.detachListener()
	l.desk.Lanes.Riders.Close()
	settle, settled := context.WithTimeout(ctx, l.desk.Cleanup)
	l.settling.close(settle)
	settled()
	flush, cancel := context.WithTimeout(ctx, l.desk.Cleanup)
	l.desk.Lanes.Flush(flush)
	cancel()
	_, before := l.desk.Lanes.Uncertain()
	l.desk.Lanes.End()
	err := joinErrors(l.desk.Lanes.Drain(ctx), l.settling.takeUnsettled())
	err = joinErrors(err, l.own.close(ctx))
	n, amounts := l.desk.Lanes.SumPendingUpdates()
	if n > 0 && first { // a further one can but write some of it
		l.reports.reportDrop(amounts)
	}
	_, dropped := l.desk.Lanes.Uncertain() // with updates in flight to a silent bucket
	amounts = plan.Plus(amounts, plan.Plus(dropped, plan.Negated(before)))
	amounts = slices.DeleteFunc(slices.Clone(amounts), func(a plan.Signed) bool { return a.Amount == 0 })
	if len(amounts) > 0 {
		if first {
			l.log.WarnContext(ctx, "dynalimit: closed before pending counter updates were written; the counters of buckets miss them",
				slog.Int("buckets", n), slog.Any("tokens", tokensOf(amounts)))
		}
		lost := &UnconfirmedError{Amounts: tokensOf(amounts), NotWritten: true, Err: ErrClosed}
		return joinErrors(err, lost)
	}
	return err
}

// Pause stops takes from a bucket for a while, in all processes. Use it when a provider reports that
// its limit is reached, for a call that the bucket admitted. Meanwhile acquires that charge the bucket
// fail with a *PausedError, and Wait waits. Pauses do not add up: the bucket keeps the latest end of
// all. A pause lasts at most 30 s, also for another process, whose clock may differ; pause again for
// more. Resume ends it earlier. why is logged.
//
// Other processes learn of it by their next answer from the bucket, and in a ChargeTransaction by their
// next read of it. Open leases go on. Nothing is consumed. A bucket that does not exist is paused in
// this process alone. A pause costs 1 write unit. It costs nothing if a known pause ends less than a
// second earlier.
//
// It is written even if ctx has ended, for Options.CleanupTimeout at most. Errors: *ValidationError,
// and *UnavailableError if the bucket could not be written: the pause holds in this process then.
func (l *RateLimiter) Pause(ctx context.Context, entity, resource string, d time.Duration, why string) error {
	if err := l.checkUsable(ctx); err != nil {
		return err
	}
	if err := cmp.Or(checkEntityID("entity", entity), checkResource(resource)); err != nil {
		return err
	}
	if d <= 0 {
		return invalid("d", "is %v; give the wait that the provider asked for", d)
	}
	d = min(d, lane.MostPause)
	if !l.repo.clock.Corrects() {
		d += lane.PauseMargin
	}
	at := l.desk.Lanes.Of(entity, resource)
	now := l.desk.NowMS()
	until := now + d.Milliseconds()
	if !at.Pause.Raise(until, lane.PauseMargin.Milliseconds()) {
		return nil
	}
	l.log.InfoContext(ctx, "dynalimit: a bucket is paused",
		slog.String("entity", entity), slog.String("resource", resource), slog.Duration("for", d), slog.String("why", why))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.desk.Cleanup)
	defer cancel()
	return l.repo.buckets.WritePause(ctx, "pause the bucket", at.Key(), schema.PauseUntil(until, lane.LatestPause(now)))
}

// Resume ends the pause of a bucket (see Pause), of any process: its provider takes calls again, or it
// was paused by mistake. A bucket that is not paused stays as it is. This process's calls go on at
// once. Another process goes on with its next answer from the bucket, at the latest 31 s after it
// learnt of the pause. An answer from before Resume that arrives late restores the pause in its
// process, for at most 31 s. why is logged. It costs 1 write unit.
//
// It is written even if ctx has ended, for Options.CleanupTimeout at most. Errors: *ValidationError,
// and *UnavailableError if the bucket could not be written: the pause has ended in this process then.
func (l *RateLimiter) Resume(ctx context.Context, entity, resource, why string) error {
	if err := l.checkUsable(ctx); err != nil {
		return err
	}
	if err := cmp.Or(checkEntityID("entity", entity), checkResource(resource)); err != nil {
		return err
	}
	at := l.desk.Lanes.Of(entity, resource)
	at.Pause.Lift()
	l.log.InfoContext(ctx, "dynalimit: a bucket is not paused any more",
		slog.String("entity", entity), slog.String("resource", resource), slog.String("why", why))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.desk.Cleanup)
	defer cancel()
	return l.repo.buckets.WritePause(ctx, "end the pause of the bucket", at.Key(), schema.LiftPause())
}

// ownCounters holds the limiter of this project's own counters, which the first use makes.
type ownCounters struct {
	mu      sync.Mutex
	limiter *RateLimiter
}

// bookkeeping returns the limiter of this project's own counters, in the same table and namespace, and makes it
// at its first use. It takes limits from its calls alone, and has no observer. A limiter that New did not make
// returns itself.
func (l *RateLimiter) bookkeeping() *RateLimiter {
	if l.repo == nil {
		return l // each of its calls fails
	}
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	if l.own.limiter == nil {
		o := Options{Timeout: l.options.Timeout, CleanupTimeout: l.options.CleanupTimeout, Logger: l.log, Now: l.options.Now}
		own, err := New(l.repo.options.newRepository(l.repo.given, l.repo.table, schema.OwnKeys(l.repo.keys.Name())), &o)
		if err != nil { // New has accepted each of these options before
			panic(err)
		}
		l.own.limiter = own
	}
	return l.own.limiter
}

// close closes the limiter of this project's own counters, if it was made, and returns that Close's error. It
// keeps the closed limiter.
func (o *ownCounters) close(ctx context.Context) error {
	o.mu.Lock()
	own := o.limiter
	o.mu.Unlock()
	if own == nil {
		return nil
	}
	return own.Close(ctx)
}
