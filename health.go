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
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Health is what a limiter knows about its store, for readiness checks, dashboards and
// alarms. It is a plain value.
type Health struct {
	// Ready means that calls can be served: the table answers, or the policy admits
	// calls without it. An instance that is not ready would fail every call. Under Allow
	// and Local, an instance that cannot reach the table is ready.
	Ready bool
	// Open means that the table does not answer, since Since, because of Cause. It is
	// probed in the background; NextProbe is when it is asked next.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// SilentBuckets is the number of buckets that do not answer although the table may:
	// a partition of it fails.
	SilentBuckets int
	// WaitingBuckets is the number of buckets that have still to be told something: what
	// was admitted, or used, without them, and what could not be given back to them. That
	// is written when the bucket answers, and lost if the process ends before.
	WaitingBuckets int
	// Waiting is how much that is, in whole tokens by limit, with what is under way: by so
	// much the buckets' counters may differ from what was used.
	Waiting Amounts
	// Doubt is what may have been charged, counted or given back although no answer came,
	// since the limiter was made, in whole tokens by limit: what was used is what the
	// counters tell, give or take this. Dropped is what no bucket was told: it or its limit
	// does not exist any more, or too many buckets waited.
	Doubt, Dropped Amounts
	// Hottest are the buckets whose partitions throttle, or did in the last minutes, so
	// that this process leaves an interval between its writes to them: the longest
	// interval first, at most 10.
	Hottest []HotBucket
}

// Health reports whether the store answers, what buckets have to be told and what is in
// doubt.
// It does no I/O. A limiter that New did not make is not Ready, nor is one that was
// closed.
func (l *RateLimiter) Health() Health {
	if l == nil || l.repo == nil {
		return Health{}
	}
	s := l.repo.breaker.State()
	h := Health{
		Open: s.Open, SilentBuckets: l.lanes.Silent(),
		Ready: !l.closed.Load() && (!s.Open || l.knownPolicy().admits()),
	}
	if s.Open {
		h.Since, h.Cause, h.NextProbe = s.Since, s.Cause, s.NextProbe
	}
	buckets, waiting := l.lanes.Waiting()
	h.WaitingBuckets, h.Waiting = buckets, tokensOf(waiting)
	doubted, dropped := l.lanes.Uncertain()
	h.Doubt, h.Dropped = tokensOf(doubted), tokensOf(dropped)
	for _, p := range l.lanes.Hottest(mostHottest) {
		h.Hottest = append(h.Hottest, HotBucket{
			EntityID: p.Entity, Resource: p.Resource, Why: pacedBecause(p), Interval: p.Interval, LastThrottled: p.Throttled,
		})
	}
	return h
}

// knownPolicy is the policy for calls that bring none: the system's as last read, or the
// limiter's if the system has none.
func (l *RateLimiter) knownPolicy() UnavailablePolicy {
	if p := l.systemPolicy.Load(); p != nil && *p != "" {
		return *p
	}
	return l.opts.OnUnavailable
}

// AvailabilityChange says that a table stopped answering, or answers again.
type AvailabilityChange struct {
	// Table is its name.
	Table string
	// Open means that the table does not answer any more, so the policy decides.
	Open bool
	// Cause is the failure that showed it, nil when it answers again.
	Cause error
}

// neverHolds is a condition that is false for every item, and for an absent item.
const neverHolds = "attribute_exists(" + schema.PK + ") AND attribute_not_exists(" + schema.PK + ")"

// hearers are the limiters that a Repository tells about outages of its table, and about
// buckets that it filled by hand.
type hearers struct {
	mu   sync.Mutex
	list []*hearer
}

// hearer is what a limiter is told by; what is nil is not told.
type hearer struct {
	notify   func(ddb.State)
	refilled func(entity, resource string)
}

// newBreaker makes the breaker of the repository's table. It measures waits, so it uses
// the time of this process, whatever clock the buckets use. It does not open before a
// limiter listens.
func (r *Repository) newBreaker() *ddb.Breaker {
	b := ddb.NewBreaker(ddb.BreakerOptions{
		Probe:    func(ctx context.Context) error { return r.probe(ctx, r.absentKey()) },
		Logger:   r.log.With(slog.String("table", r.table)),
		OnChange: r.listeners.notify,
	})
	b.Stop()
	return b
}

// outage returns why the table does not answer; nil while it answers.
func (r *Repository) outage() error {
	s := r.breaker.State()
	if !s.Open {
		return nil
	}
	return &UnavailableError{Op: readConfig, Err: silentCause{s.Cause}, RetryAfter: r.breaker.RetryAfter()}
}

// probe asks the table to prove that it takes writes, by an update whose condition is
// false, so that it writes nothing. An absent item is used, so that no caller is
// disturbed.
func (r *Repository) probe(ctx context.Context, key schema.Item) error {
	_, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: key, ConditionExpression: aws.String(neverHolds),
	}, ddb.WithoutRetries)
	return err
}

// absentKey is the key of an item that nobody makes. It differs each time, so that the
// probes reach every partition.
func (r *Repository) absentKey() schema.Item {
	return r.keys.Bucket("probe-"+rand.Text(), "probe").Attributes()
}

// listen tells a limiter what it listens for. The function that it returns ends that. The
// breaker starts with the first limiter and stops with the last, because nobody else needs
// it.
func (r *Repository) listen(l *hearer) (detach func()) {
	r.listeners.mu.Lock()
	defer r.listeners.mu.Unlock()
	r.listeners.list = append(r.listeners.list, l)
	r.breaker.Start()
	return sync.OnceFunc(func() {
		r.listeners.mu.Lock()
		defer r.listeners.mu.Unlock()
		r.listeners.list = slices.DeleteFunc(r.listeners.list, func(other *hearer) bool { return other == l })
		if len(r.listeners.list) == 0 {
			r.breaker.Stop()
		}
	})
}

// all are those who listen now.
func (a *hearers) all() []*hearer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

func (a *hearers) notify(s ddb.State) {
	for _, l := range a.all() {
		if l.notify != nil {
			l.notify(s)
		}
	}
}

func (a *hearers) refilled(entity, resource string) {
	for _, l := range a.all() {
		if l.refilled != nil {
			l.refilled(entity, resource)
		}
	}
}

// ThrottleCause says which requests of a bucket its partition has throttled.
type ThrottleCause string

const (
	// WritesThrottled means that the last throttled request was a write: one item takes
	// 1,000 write units a second.
	WritesThrottled ThrottleCause = "writes throttled"
	// ReadsThrottled means that it was a read: one item takes 3,000 read units a second.
	ReadsThrottled ThrottleCause = "reads throttled"
)

// String is the cause in words.
func (c ThrottleCause) String() string { return string(c) }

// HotBucket is a bucket whose writes are paced because its partition throttles:
// callers queue meanwhile, and one write carries them all.
type HotBucket struct {
	// EntityID and Resource name the bucket.
	EntityID, Resource string
	// Why says what was throttled last.
	Why ThrottleCause
	// Interval is the least time between the starts of two writes of this process, 2 s
	// at most. It is 0 when only reads were throttled.
	Interval time.Duration
	// LastThrottled is when a request was last throttled, by the local clock.
	LastThrottled time.Time
}

// mostHottest bounds Health.Hottest.
const mostHottest = 10

// pacedBecause is why a bucket's writes are paced.
func pacedBecause(p lane.Paced) ThrottleCause {
	if p.Reads {
		return ReadsThrottled
	}
	return WritesThrottled
}
