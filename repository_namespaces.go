package dynalimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
)

// namespaceState is the state of a namespace's record, as last read with a configuration. It is nil for
// a repository without a namespace.
type namespaceState struct {
	// now is the clock for the age of configurations, ttl the time for which one is fresh.
	now  func() time.Time
	ttl  time.Duration
	seen atomic.Pointer[namespaceSeen]
}

// namespaceSeen is one reading of the record.
type namespaceSeen struct {
	// at and tick were taken before the read.
	at   time.Time
	tick int64
	// inactive is the reason why the namespace may not be used; nil if it may.
	inactive *fault.NamespaceError
}

// note stores a reading, unless one with a later start is stored.
func (n *namespaceState) note(seen *namespaceSeen) {
	for {
		last := n.seen.Load()
		if last != nil && last.tick > seen.tick || n.seen.CompareAndSwap(last, seen) {
			return
		}
	}
}

// refused returns the error of a call in a namespace that was inactive at a reading within the TTL of
// the configuration: then it is not read again.
func (n *namespaceState) refused() error {
	seen := n.seen.Load()
	if seen == nil || seen.inactive == nil { // the usual case
		return nil
	}
	if age := n.now().Sub(seen.at); age < 0 || age >= n.ttl {
		return nil
	}
	return seen.inactive
}

// refusedBy returns the error of a call after its configuration was read, or could not be. A known
// inactive namespace wins over err, whatever the policy. Otherwise it is err.
func (n *namespaceState) refusedBy(ctx context.Context, err error) error {
	if inactive := n.inactive(); inactive != nil && ctx.Err() == nil && (err == nil || unavailable(err)) {
		return inactive
	}
	return err
}

// inactive returns the error of the namespace as last read, however long ago. It is nil if the
// namespace was active, or was never read.
func (n *namespaceState) inactive() *fault.NamespaceError {
	if seen := n.seen.Load(); seen != nil {
		return seen.inactive
	}
	return nil
}
