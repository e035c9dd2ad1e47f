package lane

import (
	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// localLimit is this process's share of one limit, as a leaky queue. It is kept after an
// outage, so that outages in quick succession do not refill it.
type localLimit struct {
	name  string
	queue backlog.Queue
}

// localQueue returns the queue of a limit; l.mu must be held.
func (l *Lane) localQueue(name string) *backlog.Queue {
	if l.local == nil {
		l.local = new([]localLimit)
	}
	local := *l.local
	for i := range local {
		if local[i].name == name {
			return &local[i].queue
		}
	}
	*l.local = append(local, localLimit{name: name})
	return &(*l.local)[len(local)].queue
}

// AdmitLocally takes amounts from the process's share of the limits, all or nothing. It
// returns what the share holds afterwards, or what it held when it denied.
func (l *Lane) AdmitLocally(asked []plan.Signed, cfg *plan.Config, share float64, now int64) (r Result, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok = true
	for _, a := range asked {
		rate := backlog.Share(l.rateNow(a.Name, cfg), share)
		q := l.localQueue(a.Name)
		if used := l.usedShare(a.Name, share, now); a.Amount <= rate.Burst { // else there is room for it alone
			q.Raise(rate, used, now)
		}
		_, fits := q.Fits(rate, a.Amount, now)
		ok = ok && fits
	}
	if ok {
		l.fillLocally(asked, cfg, share, now)
	}
	return l.localReading(asked, cfg, share, now), ok
}

// GiveBackLocally gives back to the share what it admitted.
func (l *Lane) GiveBackLocally(amounts []plan.Signed, cfg *plan.Config, share float64, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range amounts {
		l.localQueue(a.Name).Give(backlog.Share(l.rateNow(a.Name, cfg), share), a.Amount, now)
	}
}

// CorrectLocally changes the share by what calls that it admitted have really used. It
// is never denied.
func (l *Lane) CorrectLocally(changes []plan.Signed, cfg *plan.Config, share float64, now int64) {
	charges, backs := plan.Split(changes)
	l.GiveBackLocally(plan.Negated(backs), cfg, share, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fillLocally(charges, cfg, share, now)
}

// fillLocally takes amounts from the share; l.mu must be held.
func (l *Lane) fillLocally(amounts []plan.Signed, cfg *plan.Config, share float64, now int64) {
	for _, a := range amounts {
		l.localQueue(a.Name).Fill(backlog.Share(l.rateNow(a.Name, cfg), share), a.Amount, now)
	}
}

// rateNow is the rate of a limit as last known: from the configuration, or from the
// bucket's image if the configuration does not have the limit.
func (l *Lane) rateNow(name string, cfg *plan.Config) bucket.Rate {
	if cfg.Index(name) < 0 && l.sight.known && l.sight.image.Holds(name) {
		return l.sight.image.Limits[l.sight.image.Set.Index(name)].Rate
	}
	return cfg.RateOf(name)
}

// usedShare is the process's share of what the last image shows as used at now.
func (l *Lane) usedShare(name string, share float64, now int64) int64 {
	if !l.sight.known || !l.sight.image.Holds(name) {
		return 0
	}
	state := l.sight.image.State(l.sight.image.Set.Index(name))
	return int64(float64(state.Burst-state.Level(now)) * share)
}

// localReading shows the process's share as a bucket, for statuses. An amount above the
// share's burst fits an empty share, so the burst is shown as that amount.
func (l *Lane) localReading(asked []plan.Signed, cfg *plan.Config, share float64, now int64) Result {
	m := &schema.Image{HasRefilled: true, Refilled: now}
	names := make([]string, len(asked))
	for i, a := range asked {
		names[i] = a.Name
		rate := backlog.Share(l.rateNow(a.Name, cfg), share)
		rate.Burst = max(rate.Burst, a.Amount)
		capacity := rate.Burst
		if j := cfg.Index(a.Name); j >= 0 {
			capacity = min(capacity, cfg.Limits[j].Capacity)
		}
		m.Limits = append(m.Limits, schema.Stored{
			Rate: rate, Capacity: capacity, Tokens: rate.Burst - l.localQueue(a.Name).Level(rate, now),
		})
	}
	m.Set = schema.NewLimitSets().Of(names)
	return Result{Image: m, Config: cfg, Now: now, Degraded: true}
}
