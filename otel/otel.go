// Package otel measures a limiter with OpenTelemetry: metrics and spans.
//
//	observer, err := otel.New(meters, tracers, nil)
//	limiter, err := dynalimit.New(repo, &dynalimit.Options{Observer: observer})
//	watched, err := otel.Watch(meters, limiter, repo)
//
// New measures events, Watch the state. The names of metrics and attributes begin with "dynalimit.":
// docs/metrics.md lists them. No name has an entity unless Options.Entity is set, because each would
// be a series of its own.
package otel

import (
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"

	"github.com/dynalimit/dynalimit/observe"
)

// scope is the name of the instrumentation.
const scope = "github.com/dynalimit/dynalimit/otel"

// Options has further attributes. nil and the zero value give the defaults.
type Options struct {
	// Entity adds the attribute "dynalimit.entity": of calls the entity that they name, of
	// buckets theirs. Set it where entities are few, such as teams. Defaults to false.
	Entity bool
}

// meterOf returns this package's meter of a provider. For nil it returns one that measures nothing.
func meterOf(meters metric.MeterProvider) metric.Meter {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	return meters.Meter(scope)
}

// New returns an observer for dynalimit.Options.Observer that reports the limiter's events as metrics to meters
// and as spans to tracers. A nil provider means no metrics, or no spans; several limiters may use one observer.
// It fails only if the provider does.
func New(meters metric.MeterProvider, tracers trace.TracerProvider, opts *Options) (observe.Observer, error) {
	l := labels{}
	if opts != nil {
		l.entity = opts.Entity
	}
	var o observe.Observer
	if meters != nil {
		m, err := newMeter(meters, l)
		if err != nil {
			return observe.Observer{}, err
		}
		o = m.newObserver()
	}
	if tracers != nil {
		s := spans{tracers.Tracer(scope), l}
		o.AcquireStart, o.AcquireEnd = s.acquireStart, callBoth(o.AcquireEnd, s.acquireEnd)
		o.WriteStart, o.WriteEnd = s.writeStart, callBoth(o.WriteEnd, s.writeEnd)
	}
	return o, nil
}
