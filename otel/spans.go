package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dynalimit/dynalimit/observe"
)

// spans makes a span of each acquire with a request to the store, and of each write, below the
// acquire of the goroutine that sent it. A decision from memory makes no span.
type spans struct {
	tracer trace.Tracer
	labels labels
}

// callBoth returns a function that calls first, unless it is nil, and then second.
func callBoth[E any](first, second func(context.Context, E)) func(context.Context, E) {
	return func(ctx context.Context, e E) {
		if first != nil {
			first(ctx, e)
		}
		second(ctx, e)
	}
}

// acquire is an acquire whose span begins with its first write, or at its end.
type acquire struct {
	began  time.Time
	attrs  []attribute.KeyValue
	mu     sync.Mutex
	span   trace.Span
	closed bool // its span has ended, or there will be none
}

// acquireKey is where a context has its acquire.
type acquireKey struct{}

// acquireStart returns ctx with the start time and attributes of an acquire, for the later events. It starts no
// span: that begins with the first request to the store.
func (s spans) acquireStart(ctx context.Context, e observe.AcquireStart) context.Context {
	return context.WithValue(ctx, acquireKey{}, &acquire{began: time.Now(), attrs: s.labels.attributesOf(e.EntityID, e.Resource)})
}

// startSpan starts the span of an acquire, with the acquire's start time, unless it has a span or has ended. It
// returns the span; nil if the acquire ended without one.
func (s spans) startSpan(ctx context.Context, a *acquire) trace.Span {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.span == nil && !a.closed {
		_, a.span = s.tracer.Start(ctx, "dynalimit.acquire", trace.WithTimestamp(a.began), trace.WithAttributes(a.attrs...))
	}
	return a.span
}

// acquireEnd ends the span of the acquire in ctx with its outcome. It makes a span first for an acquire without
// one, unless the acquire was decided from memory. It does nothing if ctx has no acquire.
func (s spans) acquireEnd(ctx context.Context, e observe.AcquireEnd) {
	a, ok := ctx.Value(acquireKey{}).(*acquire)
	if !ok {
		return
	}
	if !e.FromMemory {
		s.startSpan(ctx, a)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed = true; a.span != nil {
		endSpan(a.span, e.Err, outcomeAttribute(e.Err, outcomeOfGrant(e.Degraded)))
	}
}

// writeStart starts the span of a write, below the span of the acquire in ctx, which it starts first if needed.
// It returns a context with the write's span.
func (s spans) writeStart(ctx context.Context, e observe.WriteStart) context.Context {
	if a, ok := ctx.Value(acquireKey{}).(*acquire); ok {
		if span := s.startSpan(ctx, a); span != nil {
			ctx = trace.ContextWithSpan(ctx, span)
		}
	}
	ctx, _ = s.tracer.Start(ctx, "dynalimit.write", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(s.labels.attributesOf(e.EntityID, e.Resource, kindKey.String(string(e.Kind)), attribute.Int("dynalimit.callers", e.Callers))...))
	return ctx
}

// writeEnd ends the span of the write in ctx, with its outcome and number of tries.
func (s spans) writeEnd(ctx context.Context, e observe.WriteEnd) {
	endSpan(trace.SpanFromContext(ctx), e.Err, outcomeKey.String(e.Outcome), attribute.Int("dynalimit.tries", e.Tries))
}

// endSpan sets the attributes and ends a span. The outcome must be the first attribute. An error other than a
// denial becomes the span's status.
func endSpan(span trace.Span, err error, attrs ...attribute.KeyValue) {
	span.SetAttributes(attrs...)
	if err != nil && attrs[0] != outcomeKey.String("denied") {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
