package otel

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// mostAttributes bounds the attributes of a measurement.
	mostAttributes = 6
	// mostOptions bounds the cached options and the labels of begun counters. Beyond it all are made again.
	mostOptions = 10_000
)

// optionCache caches options of measurements by their attributes: to sort and hash attributes takes longer than to
// measure. The zero cache is empty. It is safe for concurrent use.
type optionCache struct {
	mu      sync.RWMutex
	options map[[mostAttributes]attribute.KeyValue]metric.MeasurementOption
}

// optionOf returns the option of a measurement with the attributes more, at most four, and the resource. The entity is
// added if Options.Entity is set.
func (m *meter) optionOf(entity, resource string, more ...attribute.KeyValue) metric.MeasurementOption {
	var of [mostAttributes]attribute.KeyValue
	n := copy(of[:], more)
	of[n] = resourceKey.String(resource)
	if n++; m.labels.entity {
		of[n] = entityKey.String(entity)
		n++
	}
	c := &m.options
	c.mu.RLock()
	option := c.options[of]
	c.mu.RUnlock()
	if option != nil {
		return option
	}
	option = metric.WithAttributeSet(attribute.NewSet(slices.Clone(of[:n])...))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.options == nil || len(c.options) >= mostOptions {
		c.options = map[[mostAttributes]attribute.KeyValue]metric.MeasurementOption{}
	}
	c.options[of] = option
	return option
}
