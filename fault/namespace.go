package fault

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// NamespaceState is where a namespace is in its life. Each follows the one before.
type NamespaceState string

const (
	// NamespaceActive is a namespace that limiters may use.
	NamespaceActive NamespaceState = "active"
	// NamespaceDeleted is a namespace whose limiters are refused. Its items are kept until a purge.
	NamespaceDeleted NamespaceState = "deleted"
	// NamespacePurging is a namespace in removal, for good.
	NamespacePurging NamespaceState = "purging"
	// NamespacePurged is one that is empty. Its name stays taken.
	NamespacePurged NamespaceState = "purged"
)

var (
	// ErrNamespace matches every *NamespaceError.
	ErrNamespace = errors.New("dynalimit: the state of the namespace does not allow it")
	// ErrNamespaceDeleted matches a *NamespaceError of a namespace that was deleted, is
	// being purged, or was purged.
	ErrNamespaceDeleted = errors.New("dynalimit: the namespace is deleted")
)

// NamespaceError means that a namespace is not in the state that a call needs. Nothing was
// consumed, and nothing written. It is not an outage: no policy admits a call because of it.
type NamespaceError struct {
	// Namespace is its name.
	Namespace string
	// State is its state; empty if it was never registered.
	State NamespaceState
	// Since is when it got this state, by DynamoDB's clock; zero for one that was never
	// registered.
	Since time.Time
	// Reason has the fix.
	Reason string
	// Fix is the call that does it, which Error appends to the reason; empty if none does.
	Fix Fix
}

// Error returns a text with the namespace, its state since when (UTC), and the fix. Without a state it says
// that the namespace is not registered.
func (e *NamespaceError) Error() string {
	if e.State == "" {
		return fmt.Sprintf("dynalimit: namespace %q is not registered: %s", e.Namespace, e.Fix.After(e.Reason))
	}
	return fmt.Sprintf("dynalimit: namespace %q is %s since %s: %s", e.Namespace, e.State, e.Since.UTC().Format(time.RFC3339), e.Fix.After(e.Reason))
}

// Is reports whether target is ErrNamespace, or ErrNamespaceDeleted if the namespace was deleted, is being
// purged or was purged.
func (e *NamespaceError) Is(target error) bool {
	return target == ErrNamespace || target == ErrNamespaceDeleted && e.State != "" && e.State != NamespaceActive
}

// RetryIn returns the longest duration and false, because no wait helps until an administrator has acted.
func (e *NamespaceError) RetryIn() (time.Duration, bool) { return math.MaxInt64, false }
