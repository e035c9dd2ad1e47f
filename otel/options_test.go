package otel

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The option of a measurement is made once, has all its attributes, and is dropped with all others above the bound.
func TestOptionsAreMadeOnce(t *testing.T) {
	m := &meter{labels: labels{entity: true}}
	option := func(entity, resource string, memory bool) metric.MeasurementOption {
		return m.optionOf(entity, resource, limitKey.String("rpm"), memoryKey.Bool(memory))
	}
	first := option("u", "gpt-4", true)
	set := metric.NewAddConfig([]metric.AddOption{first}).Attributes()
	assert.Equal(t, []attribute.KeyValue{entityKey.String("u"), memoryKey.Bool(true), limitKey.String("rpm"), resourceKey.String("gpt-4")}, set.ToSlice())
	assert.Zero(t, testing.AllocsPerRun(100, func() { option("u", "gpt-4", true) }))
	for _, other := range []metric.MeasurementOption{option("u", "gpt-4", false), option("v", "gpt-4", true), option("u", "gpt-5", true)} {
		assert.NotEqual(t, first, other)
	}
	for n := range mostOptions + 1 {
		option(fmt.Sprint(n), "gpt-4", true)
		m.begun.addNew(begunKey{resource: fmt.Sprint(n)})
		assert.LessOrEqual(t, len(m.options.options), mostOptions)
		assert.LessOrEqual(t, len(m.begun.seen), mostOptions)
	}
	assert.Equal(t, first, option("u", "gpt-4", true))
}
