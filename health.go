package dynalimit

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Health is what a limiter knows of its store, for readiness checks, dashboards
// and alarms.
type Health struct {
	// Ready says that calls can be served: the table answers, or the policy
	// admits without it. An instance that is not ready would only fail calls;
	// under Allow and Local one that is cut off from the table is ready.
	Ready bool
	// Open says that the table does not answer, since Since, because of Cause.
	// It is probed in the background; the next probe is at NextProbe.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// SilentBuckets is how many buckets do not answer although the table may: a
	// sick partition.
	SilentBuckets int
	// OwedBuckets is for how many buckets the process keeps what they are owed:
	// what was admitted without them, or could not be given back. It is written
	// when they answer, and lost if the process ends before.
	OwedBuckets int
	// Owed is that backlog's charges, in whole tokens by limit.
	Owed Amounts
	// Doubt is what may have been charged or given back although no answer came,
	// since the limiter was made, in whole tokens by limit. It counts as
	// consumed. Dropped is what was owed to buckets or limits that are gone, and
	// was never charged.
	Doubt, Dropped Amounts
	// Hottest are the buckets whose partitions throttle, or did within the last
	// minutes, so that this process leaves an interval between its writes of them:
	// those of the longest interval first, at most 10.
	Hottest []HotBucket
}

// Health reports whether the store answers, what is owed to it and what is in
// doubt. It does no I/O.
func (l *RateLimiter) Health() Health {
	s := l.repo.breaker.State()
	h := Health{
		Open: s.Open, SilentBuckets: l.lanes.Silent(),
		Ready: !s.Open || l.knownPolicy().admits(),
	}
	if s.Open {
		h.Since, h.Cause, h.NextProbe = s.Since, s.Cause, s.NextProbe
	}
	buckets, owed := l.lanes.Backlog()
	h.OwedBuckets, h.Owed = buckets, tokensOf(owed)
	doubted, dropped := l.lanes.Uncertain()
	h.Doubt, h.Dropped = tokensOf(doubted), tokensOf(dropped)
	for _, p := range l.lanes.Hottest(mostHottest) {
		h.Hottest = append(h.Hottest, HotBucket{
			EntityID: p.Entity, Resource: p.Resource, Why: pacedBecause(p), Interval: p.Interval, LastThrottled: p.Throttled,
		})
	}
	return h
}

// knownPolicy is what applies to calls that bring no policy of their own: the
// system's as last read, else the limiter's.
func (l *RateLimiter) knownPolicy() UnavailablePolicy {
	if p := l.systemPolicy.Load(); p != nil && *p != "" {
		return *p
	}
	return l.opts.OnUnavailable
}

// AvailabilityChange describes that a table stopped answering, or answers again.
type AvailabilityChange struct {
	// Table is its name.
	Table string
	// Open says that it does not answer any more: the policy decides.
	Open bool
	// Cause is the failure that showed it, nil when it answers again.
	Cause error
}

// neverHolds is a condition that no item meets, and the absence of one neither.
const neverHolds = "attribute_exists(" + schema.PK + ") AND attribute_not_exists(" + schema.PK + ")"

// outageListeners is who hears of a table's outages: the limiters over a Repository.
type outageListeners struct {
	mu   sync.Mutex
	list []*outageListener
}

type outageListener struct{ notify func(ddb.State) }

// newBreaker is the breaker of the repository's table. It measures waits, so it
// takes the time of this process, whatever clock the buckets have.
// Nothing opens it until a limiter needs it.
func (r *Repository) newBreaker() *ddb.Breaker {
	b := ddb.NewBreaker(ddb.BreakerOptions{
		Probe:    func(ctx context.Context) error { return r.probe(ctx, r.absentKey()) },
		Logger:   r.log.With(slog.String("table", r.table)),
		OnChange: r.listeners.notify,
	})
	b.Stop()
	return b
}

// outage returns why the table does not answer, nil while it does.
func (r *Repository) outage() error {
	s := r.breaker.State()
	if !s.Open {
		return nil
	}
	return &UnavailableError{Op: "read the configuration", Err: silentCause{s.Cause}, RetryAfter: r.breaker.RetryAfter()}
}

// probe asks the table for proof that it takes writes: an update whose condition
// cannot hold, so that it never writes. Of an absent item it disturbs nobody.
func (r *Repository) probe(ctx context.Context, key schema.Item) error {
	_, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: key, ConditionExpression: aws.String(neverHolds),
	}, ddb.WithoutRetries)
	return err
}

// absentKey is the key of an item that nobody makes. It is another each time, so
// that the probes meet every partition.
func (r *Repository) absentKey() schema.Item {
	return r.keys.Bucket("probe-"+rand.Text(), "probe").Attributes()
}

// listen lets a limiter hear of the table's outages; hear may be nil. The
// function it returns ends that. The breaker is started for the first of them and
// stopped with the last: nobody else needs it.
func (r *Repository) listen(notify func(ddb.State)) (detach func()) {
	l := &outageListener{notify}
	r.listeners.mu.Lock()
	defer r.listeners.mu.Unlock()
	r.listeners.list = append(r.listeners.list, l)
	r.breaker.Start()
	return sync.OnceFunc(func() {
		r.listeners.mu.Lock()
		defer r.listeners.mu.Unlock()
		r.listeners.list = slices.DeleteFunc(r.listeners.list, func(other *outageListener) bool { return other == l })
		if len(r.listeners.list) == 0 {
			r.breaker.Stop()
		}
	})
}

func (a *outageListeners) notify(s ddb.State) {
	a.mu.Lock()
	hearers := slices.Clone(a.list)
	a.mu.Unlock()
	for _, l := range hearers {
		if l.notify != nil {
			l.notify(s)
		}
	}
}
