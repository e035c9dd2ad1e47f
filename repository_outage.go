package dynalimit

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/observe"
)

// hearers are the limiters that a Repository notifies of outages of its table, of buckets filled by
// hand, and of reads of configurations.
type hearers struct {
	mu   sync.Mutex
	list []*hearer
}

// hearer holds the callbacks of one limiter; each may be nil.
type hearer struct {
	notify   func(ddb.State)
	refilled func(entity, resource string)
	loaded   func(observe.ConfigLoad)
}

// newBreaker returns the stopped breaker of the repository's table, which the first limiter starts. It measures
// waits by the time of this process, whatever clock the buckets use.
func (r *Repository) newBreaker() *ddb.Breaker {
	b := ddb.NewBreaker(ddb.BreakerOptions{
		Probe:    func(ctx context.Context) error { return r.buckets.ProbeTable(ctx) },
		Logger:   r.log.With(slog.String("table", r.table)),
		OnChange: r.listeners.notify,
	})
	b.Stop()
	return b
}

// listen registers the callbacks of a limiter; the returned function removes them. The breaker starts with the
// first limiter and stops with the last, because nobody else needs it.
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

// all returns a copy of the list of registered limiters, so that callbacks run without the lock.
func (a *hearers) all() []*hearer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// notify calls the notify callback of each limiter: the table stopped answering, or answers again.
func (a *hearers) notify(s ddb.State) {
	for _, l := range a.all() {
		if l.notify != nil {
			l.notify(s)
		}
	}
}

// notifyRefilled calls the refilled callback of each limiter: this process has filled a bucket by hand.
func (a *hearers) notifyRefilled(entity, resource string) {
	for _, l := range a.all() {
		if l.refilled != nil {
			l.refilled(entity, resource)
		}
	}
}

// configLoaded reports a read of a configuration, its duration and its error as users see it, to the observers
// of the limiters.
func (r *Repository) configLoaded(key config.Key, took time.Duration, err error) {
	if err != nil {
		err = configError(r.layout, err)
	}
	for _, l := range r.listeners.all() {
		if l.loaded != nil {
			l.loaded(observe.ConfigLoad{EntityID: key.Entity, Resource: key.Resource, Duration: took, Err: err})
		}
	}
}
