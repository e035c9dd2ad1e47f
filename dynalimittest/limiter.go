// Package dynalimittest is for the tests of services that use dynalimit: a limiter on a store in
// memory, with a clock that the test moves. Nothing is installed and nothing leaves the process.
//
//	limiter := dynalimittest.New(t, dynalimit.PerMinute("tpm", 10_000))
//	handler := newService(limiter.RateLimiter)
//	limiter.Exhaust("user-123", "gpt-4")
//	… // the handler answers 429
//	limiter.Advance(time.Minute)
//	… // and 200
//	limiter.AssertTaken("user-123", "gpt-4", dynalimit.Amounts{"tpm": 700})
//
// Call waiting methods, such as dynalimit.RateLimiter.Wait, in a bubble of testing/synctest:
// there the clock is the bubble's, and a wait of an hour takes no time.
package dynalimittest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// Limiter is a limiter for one test. Give its RateLimiter to the tested service. Its methods fail
// the test if they cannot do their work. They also work in functions of t.Cleanup, except those
// registered before New. It is safe for concurrent use.
type Limiter struct {
	*dynalimit.RateLimiter
	// Repo is the limiter's repository: package admin sets limits and entities in it, and
	// dynalimit.New makes other limiters on it, as in other processes.
	Repo *dynalimit.Repository
	// DB is the store: its meter counts requests, its faults are those of single requests.
	DB *ddbmem.DB

	t     testing.TB
	clock clock
	wire  wire
	// denials are how many acquires DenyNext has still to deny.
	denials atomic.Int64
	gate    gate

	mu sync.Mutex
	// exhausted has the amounts that Exhaust took, not the service.
	exhausted map[bucket]dynalimit.Amounts
}

// bucket names a bucket.
type bucket struct{ entity, resource string }

// New makes a limiter with these limits for every entity and resource, and closes it when the
// test ends. Without limits, set them with package admin in Repo.
//
// In a bubble of testing/synctest its clock is the bubble's. Elsewhere it stands still, at
// midnight UTC of 2000-01-01 as a bubble's begins, until Advance or AdvanceTo moves it: refills,
// RetryAfter and the windows of quotas are the same in every run. A Wait sleeps by
// the machine's clock, so it would never end there. A limiter belongs where it was made: a call
// from inside of a bubble on a limiter from outside fails the test, and ends at once.
func New(t testing.TB, limits ...dynalimit.Limit) *Limiter {
	t.Helper()
	return NewWithOptions(t, dynalimit.Options{Limits: limits})
}

// NewWithOptions makes a limiter for a test, like New, with other options of the service: a policy for outages,
// an observer, Prefetch. Leave Now out. It creates the store and the table, and closes them at the end of the
// test.
func NewWithOptions(t testing.TB, opts dynalimit.Options) *Limiter {
	t.Helper()
	l := &Limiter{t: t, exhausted: map[bucket]dynalimit.Amounts{}}
	l.clock.startClock()
	l.DB = ddbmem.New(ddbmem.WithClock(l.clock.now))
	l.wire.next = l.DB
	client := l.DB.Client(func(o *dynamodb.Options) { o.HTTPClient, o.RetryMaxAttempts = &l.wire, 1 })
	var err error
	l.Repo, err = dynalimit.NewRepository(client, "limits", &dynalimit.RepositoryOptions{Now: l.clock.now, Principal: "test"})
	l.requireNoError("make a repository", err)
	l.requireNoError("make the table", l.Repo.CreateTable(t.Context()))
	opts.Observer = l.withDenials(opts.Observer)
	l.RateLimiter, err = dynalimit.New(l.Repo, &opts)
	l.requireNoError("make a limiter", err)
	t.Cleanup(func() {
		l.DB.SetFaults(nil)
		l.wire.cut.Store(false)
		if err := l.Close(l.endlessContext()); err != nil {
			t.Errorf("dynalimittest: close the limiter: %v", err)
		}
		l.DB.Close()
	})
	return l
}

// endlessContext returns the test's context without its end, because functions of t.Cleanup run after that.
func (l *Limiter) endlessContext() context.Context { return context.WithoutCancel(l.t.Context()) }

// Now returns the time by the limiter's clock.
func (l *Limiter) Now() time.Time { return l.clock.now() }

// Advance moves the clock forward by d, and fails the test if d is below 0. In a bubble of testing/synctest it
// sleeps instead, so that waiters go on.
func (l *Limiter) Advance(d time.Duration) {
	l.t.Helper()
	l.AdvanceTo(l.Now().Add(d))
}

// AdvanceTo moves the clock to an instant, such as the one at which a quota's next window begins. An instant
// before the clock fails the test. In a bubble it sleeps until then.
func (l *Limiter) AdvanceTo(at time.Time) {
	l.t.Helper()
	if at.Before(l.Now()) {
		l.t.Fatalf("dynalimittest: AdvanceTo(%v) is before the clock, which is at %v", at, l.Now())
	}
	l.clock.moveTo(at)
}

// requireNoError fails the test at once if err is not nil; what names the action.
func (l *Limiter) requireNoError(what string, err error) {
	if err != nil {
		l.t.Helper()
		l.t.Fatalf("dynalimittest: %s: %v", what, err)
	}
}
