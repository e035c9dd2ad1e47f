package dynalimit

import (
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// NamespaceState is where a namespace is in its life.
type NamespaceState = schema.NamespaceState

const (
	// NamespaceActive is a namespace that limiters may use.
	NamespaceActive = schema.NamespaceActive
	// NamespaceDeleted is one whose limiters are refused. Everything in it is kept, and
	// it can be recovered.
	NamespaceDeleted = schema.NamespaceDeleted
	// NamespacePurging is one whose items are being removed, for good.
	NamespacePurging = schema.NamespacePurging
	// NamespacePurged is one that is empty. Its name stays taken.
	NamespacePurged = schema.NamespacePurged
)

// ErrNamespace matches every *NamespaceError.
var ErrNamespace = admin.ErrNamespace

// ErrNamespaceDeleted matches a *NamespaceError of a namespace that was deleted, is being
// purged, or was purged.
var ErrNamespaceDeleted = admin.ErrNamespaceDeleted

// NamespaceError says that a namespace is not in the state that a call needs: it was never
// registered, or was deleted. Nothing was consumed, and nothing written. It is no outage:
// no policy admits a call because of it.
type NamespaceError = admin.NamespaceError

// namespaceState is what the record of a repository's namespace said when it was last
// read, with a configuration. Without a namespace it is never set.
type namespaceState struct{ seen atomic.Pointer[namespaceSeen] }

// namespaceSeen is one reading of the record.
type namespaceSeen struct {
	// at and tick were taken before the read.
	at   time.Time
	tick int64
	// inactive is why the namespace may not be used; nil if it may.
	inactive *NamespaceError
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

// inactive is why the namespace could not be used when it was last looked at, however long
// ago; nil if it could, or if nobody has looked.
func (n *namespaceState) inactive() *NamespaceError {
	if seen := n.seen.Load(); seen != nil {
		return seen.inactive
	}
	return nil
}
