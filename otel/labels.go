package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
)

// The attributes.
const (
	resourceKey  = attribute.Key("dynalimit.resource")
	entityKey    = attribute.Key("dynalimit.entity")
	limitKey     = attribute.Key("dynalimit.limit")
	levelKey     = attribute.Key("dynalimit.level")
	outcomeKey   = attribute.Key("dynalimit.outcome")
	kindKey      = attribute.Key("dynalimit.kind")
	memoryKey    = attribute.Key("dynalimit.from_memory")
	directionKey = attribute.Key("dynalimit.direction")
	shadowKey    = attribute.Key("dynalimit.shadow")
	causeKey     = attribute.Key("dynalimit.cause")
	tableKey     = attribute.Key("dynalimit.table")
	resultKey    = attribute.Key("dynalimit.result")
)

// labels makes the attributes of events.
type labels struct{ entity bool }

// attributesOf returns the attributes more and the resource, and the entity if Options.Entity is set. It may
// write into the spare capacity of more.
func (l labels) attributesOf(entity, resource string, more ...attribute.KeyValue) []attribute.KeyValue {
	more = append(more, resourceKey.String(resource))
	if l.entity {
		more = append(more, entityKey.String(entity))
	}
	return more
}

// outcomes names errors, the first that fits.
var outcomes = []struct {
	is   error
	name string
}{
	{dynalimit.ErrLimitExceeded, "denied"},
	{dynalimit.ErrBlocked, "blocked"},
	{dynalimit.ErrPaused, "paused"},
	{dynalimit.ErrUnconfirmed, "unconfirmed"},
	{dynalimit.ErrUnavailable, "unavailable"},
	{dynalimit.ErrContended, "contended"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "canceled"},
}

// outcomeAttribute returns the attribute with the outcome of an operation: done for a nil error. Otherwise it
// is the first fitting name in outcomes, such as "denied" or "unavailable", else "invalid" or "failed".
func outcomeAttribute(err error, done string) attribute.KeyValue {
	if err == nil {
		return outcomeKey.String(done)
	}
	for _, o := range outcomes {
		if errors.Is(err, o.is) {
			return outcomeKey.String(o.name)
		}
	}
	if _, ok := errors.AsType[*fault.ValidationError](err); ok {
		return outcomeKey.String("invalid")
	}
	return outcomeKey.String("failed")
}

// outcomeOfGrant returns the outcome of a granted acquire: "degraded" if an outage policy admitted it, else
// "granted".
func outcomeOfGrant(degraded bool) string {
	if degraded {
		return "degraded"
	}
	return "granted"
}
