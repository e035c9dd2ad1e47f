package shared

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// LongestTTL bounds how long a limiter in a namespace uses a configuration, and with it the
// namespace, before it looks again.
const LongestTTL = 5 * time.Minute

// NoticeTime is the time from a deletion to the earliest purge: until then an uninformed limiter
// may have a write in flight. A configuration is used for its TTL and, if
// reading it again fails, for another; then calls may take some time.
const NoticeTime = 2*LongestTTL + time.Minute

// The fixes for a namespace that is not active.
const (
	RegisterIt = "check the name, or register it"
	GoneIt     = "that is final, and its name stays taken; use another name"
)

// NamespaceError returns the error that refuses a namespace for a reason. If its record n is empty, the error's
// fix is to register it.
func NamespaceError(name string, n schema.NamespaceRecord, reason string) *fault.NamespaceError {
	e := &fault.NamespaceError{Namespace: name, State: n.State, Since: n.ChangedAt, Reason: reason}
	if n.State == "" {
		e.Fix = fault.RegisterNamespace
	}
	return e
}

// InactiveError returns the error that refuses a namespace that is not active, or nil if it is active. A nil
// record means that it was never registered.
func InactiveError(name string, record schema.Item) *fault.NamespaceError {
	n, found := schema.DecodeNamespace(record)
	switch {
	case !found:
		return NamespaceError(name, n, RegisterIt)
	case n.State == fault.NamespaceActive:
		return nil
	}
	return NamespaceError(name, n, GoneIt)
}

// GuardTable returns a copy of a table. Its reads call readable first, which fails for an unknown layout. Its
// changes require in their transaction that the keys' namespace, if any, is active.
func GuardTable(t *table.Table, keys schema.Keys, readable func(context.Context) error) *table.Table {
	guarded := *t
	guarded.Readable = readable
	key, ok := keys.Namespace()
	if !ok {
		return &guarded
	}
	guarded.Guard = &table.Guard{
		Check: t.CheckPart(key, schema.NamespaceIsActive()),
		Why: func(ctx context.Context) error {
			item, err := t.Get(ctx, "read the namespace", key)
			if err != nil {
				return err
			}
			if inactive := InactiveError(keys.Name(), item); inactive != nil {
				return inactive
			}
			return nil
		},
	}
	return &guarded
}
