package dynalimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
)

// namespaceState is what the record of a repository's namespace said when it was last
// read, with a configuration. A repository without a namespace has none.
type namespaceState struct {
	// now is the clock by which configurations grow old, and ttl how long one is fresh.
	now  func() time.Time
	ttl  time.Duration
	seen atomic.Pointer[namespaceSeen]
}

// namespaceSeen is one reading of the record.
type namespaceSeen struct {
	// at and tick were taken before the read.
	at   time.Time
	tick int64
	// inactive is why the namespace may not be used; nil if it may.
	inactive *fault.NamespaceError
}

// note keeps a reading, unless a read that began later has been kept.
func (n *namespaceState) note(seen *namespaceSeen) {
	for {
		last := n.seen.Load()
		if last != nil && last.tick > seen.tick || n.seen.CompareAndSwap(last, seen) {
			return
		}
	}
}

// refused is the error of a call in a namespace that was seen inactive within the TTL of
// the configuration: then nobody looks again.
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

// refusedBy is the error of a call whose configuration was read, or could not be: that of
// a namespace that is known to be inactive, whatever a policy says, or the read's own.
func (n *namespaceState) refusedBy(ctx context.Context, err error) error {
	if inactive := n.inactive(); inactive != nil && ctx.Err() == nil && (err == nil || unavailable(err)) {
		return inactive
	}
	return err
}

// inactive is why the namespace could not be used when it was last looked at, however long
// ago; nil if it could, or if nobody has looked.
func (n *namespaceState) inactive() *fault.NamespaceError {
	if seen := n.seen.Load(); seen != nil {
		return seen.inactive
	}
	return nil
}
