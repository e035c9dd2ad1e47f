package dynalimit

import (
	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// localLimit is one limit of a bucket as this process admits on its own: a share
// of it, as a leaky queue. It is kept over outages, so that one that comes and
// goes does not refill it.
type localLimit struct {
	name  string
	queue backlog.Queue
}

// localQueue returns the queue of a limit; l.mu must be held.
func (l *lane) localQueue(name string) *backlog.Queue {
	for i := range l.local {
		if l.local[i].name == name {
			return &l.local[i].queue
		}
	}
	l.local = append(l.local, localLimit{name: name})
	return &l.local[len(l.local)-1].queue
}

// admitLocally takes amounts from the process's share of the limits, all or
// nothing, and returns what the share holds afterwards, or as it denied.
func (l *lane) admitLocally(asked []signed, cfg *bucketConfig, share float64, now int64) (r reading, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok = true
	for _, a := range asked {
		rate := backlog.Share(l.rateNow(a.name, cfg), share)
		q := l.localQueue(a.name)
		if used := l.usedShare(a.name, share, now); a.amount <= rate.Burst { // else there is room for it alone
			q.Raise(rate, used, now)
		}
		_, fits := q.Fits(rate, a.amount, now)
		ok = ok && fits
	}
	if ok {
		for _, a := range asked {
			l.localQueue(a.name).Fill(backlog.Share(l.rateNow(a.name, cfg), share), a.amount, now)
		}
	}
	return l.localReading(asked, cfg, share, now), ok
}

// giveBackLocally returns what the share admitted.
func (l *lane) giveBackLocally(amounts []signed, cfg *bucketConfig, share float64, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range amounts {
		l.localQueue(a.name).Give(backlog.Share(l.rateNow(a.name, cfg), share), a.amount, now)
	}
}

// correctLocally brings the share to what calls that it admitted turned out to
// use, whether it has room for that or not.
func (l *lane) correctLocally(changes []signed, cfg *bucketConfig, share float64, now int64) {
	charges, backs := split(changes)
	l.giveBackLocally(negated(backs), cfg, share, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range charges {
		l.localQueue(a.name).Fill(backlog.Share(l.rateNow(a.name, cfg), share), a.amount, now)
	}
}

// rateNow is the rate of a limit as last known: of the configuration, else of
// the bucket's image.
func (l *lane) rateNow(name string, cfg *bucketConfig) bucket.Rate {
	if cfg.index(name) < 0 && l.known && l.image.Holds(name) {
		return l.image.Limits[l.image.Set.Index(name)].Rate
	}
	return cfg.rateOf(name)
}

// usedShare is the process's share of what the last image shows as used at now.
func (l *lane) usedShare(name string, share float64, now int64) int64 {
	if !l.known || !l.image.Holds(name) {
		return 0
	}
	state := l.image.State(l.image.Set.Index(name))
	return int64(float64(state.Burst-state.Level(now)) * share)
}

// localReading shows the process's share as a bucket, for statuses; an amount
// above the share's burst has room in an empty one.
func (l *lane) localReading(asked []signed, cfg *bucketConfig, share float64, now int64) reading {
	m := &schema.Image{HasRefilled: true, Refilled: now}
	names := make([]string, len(asked))
	for i, a := range asked {
		names[i] = a.name
		rate := backlog.Share(l.rateNow(a.name, cfg), share)
		rate.Burst = max(rate.Burst, a.amount)
		capacity := rate.Burst
		if j := cfg.index(a.name); j >= 0 {
			capacity = min(capacity, cfg.limits[j].capacity)
		}
		m.Limits = append(m.Limits, schema.Stored{
			Rate: rate, Capacity: capacity, Tokens: rate.Burst - l.localQueue(a.name).Level(rate, now),
		})
	}
	m.Set = schema.NewLimitSets().Of(names)
	return reading{entity: l.entity, resource: l.resource, image: m, cfg: cfg, now: now, degraded: true}
}
