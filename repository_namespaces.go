package dynalimit

import (
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
)

// namespaceState is what the record of a repository's namespace said when it was last
// read, with a configuration. Without a namespace it is never set.
type namespaceState struct{ seen atomic.Pointer[namespaceSeen] }

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

// inactive is why the namespace could not be used when it was last looked at, however long
// ago; nil if it could, or if nobody has looked.
func (n *namespaceState) inactive() *fault.NamespaceError {
	if seen := n.seen.Load(); seen != nil {
		return seen.inactive
	}
	return nil
}
