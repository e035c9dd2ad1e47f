package otel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/dynalimit/dynalimit/observe"
)

// A counter of rare events begins at 0 as soon as its labels are known. Prometheus sees no increase
// in a series that begins with its first event.

// begun are the labels with counters that have begun.
type begun struct {
	mu   sync.RWMutex
	seen map[begunKey]bool
}

// begunKey names a resource, or one limit of it; of an entity where that is a label. granted means that the limit was
// granted, so that its unit is known.
type begunKey struct {
	entity, resource, limit string
	granted                 bool
}

// addNew adds labels to those seen, and reports whether they are new. It is safe for concurrent use, and true
// for one caller only.
func (b *begun) addNew(of begunKey) bool {
	b.mu.RLock()
	seen := b.seen[of]
	b.mu.RUnlock()
	if seen {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil || len(b.seen) >= mostOptions { // later ones add 0 again
		b.seen = map[begunKey]bool{}
	}
	seen, b.seen[of] = b.seen[of], true
	return !seen
}

// beginResource adds 0 to the outcome and pacing counters of an entity's calls on a resource, once, so that
// their series begin at 0.
func (m *meter) beginResource(ctx context.Context, entity, resource string) {
	if !m.begun.addNew(m.begunKey(entity, resource, "")) {
		return
	}
	for _, name := range []string{"granted", "degraded", "invalid", "failed"} {
		m.outcomes.Add(ctx, 0, m.optionOf(entity, resource, outcomeKey.String(name)))
	}
	for _, o := range outcomes {
		m.outcomes.Add(ctx, 0, m.optionOf(entity, resource, outcomeKey.String(o.name)))
	}
	for _, why := range []observe.ThrottleCause{observe.WritesThrottled, observe.ReadsThrottled} {
		m.pacings.Add(ctx, 0, m.optionOf(entity, resource, causeKey.String(string(why))))
	}
}

// beginLimit adds 0 to the denial, overrun and dropped counters of a granted limit, once, so that their series
// begin at 0. The unit, such as "usd", selects the counter of overrun.
func (m *meter) beginLimit(ctx context.Context, entity, resource, limit, unit string) {
	m.beginDenials(ctx, entity, resource, limit)
	granted := m.begunKey(entity, resource, limit)
	if granted.granted = true; !m.begun.addNew(granted) {
		return
	}
	for _, yes := range []bool{false, true} {
		addAmount(ctx, m.overrun, m.overrunCost, unit, 0, m.optionOf(entity, resource, limitKey.String(limit), shadowKey.Bool(yes)))
	}
}

// beginDenials adds 0 to the denial and dropped counters of a limit, at the first call for it, so that their
// series begin at 0.
func (m *meter) beginDenials(ctx context.Context, entity, resource, limit string) {
	if !m.begun.addNew(m.begunKey(entity, resource, limit)) {
		return
	}
	levels := []observe.Level{observe.LevelEntity, observe.LevelParent}
	if m.labels.entity {
		levels = levels[:1] // which parent it is, is not known
	}
	for _, yes := range []bool{false, true} {
		for _, level := range levels {
			m.denials.Add(ctx, 0, m.optionOf(entity, resource, limitKey.String(limit), levelKey.String(string(level)), memoryKey.Bool(yes)))
		}
	}
	m.dropped.Add(ctx, 0, metric.WithAttributes(limitKey.String(limit)))
}

// begunKey returns a resource, or one limit of it, as the key of counters that have begun; limit is "" for the
// resource. It leaves out the entity unless Options.Entity is set.
func (m *meter) begunKey(entity, resource, limit string) begunKey {
	if !m.labels.entity {
		entity = ""
	}
	return begunKey{entity: entity, resource: resource, limit: limit}
}
