package fault

import (
	"errors"
	"fmt"
	"time"
)

// ErrLocked matches every *LockedError.
var ErrLocked = errors.New("dynalimit: held by somebody else")

// LockedError means that another process holds the lease of a name now, see package admin, Alone.
// Nothing was done.
type LockedError struct {
	// Name is the name of the lease.
	Name string
	// Holder is the principal of the holder's repository, "" if unknown.
	Holder string
	// Until is the end of the lease if the holder does not renew it, by the clock of
	// this process, with a margin of 5 s for clocks that differ.
	Until time.Time
}

// Error returns a text with the name, its holder and the end of the holder's lease in UTC.
func (e *LockedError) Error() string {
	return fmt.Sprintf("dynalimit: %q is held by %s until %s, unless it is renewed; try again then, or wait for it",
		e.Name, nameHolder(e.Holder), e.Until.UTC().Format("2006-01-02 15:04:05 MST"))
}

// Is reports whether target is ErrLocked, for errors.Is.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// nameHolder returns the holder's name for a message, "somebody" if it is empty.
func nameHolder(holder string) string {
	if holder == "" {
		return "somebody"
	}
	return holder
}

// ErrLost matches every *LostError.
var ErrLost = errors.New("dynalimit: no longer alone")

// LostError means that a lease ended before the end of its work: it could not be renewed in
// time, or another process took it. It is the cause of the end of the context.
type LostError struct {
	// Name is the name of the lease.
	Name string
	// Holder is the new holder, "" if unknown.
	Holder string
	// Err is why it could not be renewed; nil if it was taken.
	Err error
}

// Error returns a text with the reason: the lease could not be renewed, or it was taken, and by whom if that is
// known.
func (e *LostError) Error() string {
	why := "somebody else took it"
	switch {
	case e.Err != nil:
		why = "the hold could not be renewed in time: " + e.Err.Error()
	case e.Holder != "":
		why = e.Holder + " took it"
	}
	return fmt.Sprintf("dynalimit: no longer alone at %q: %s; look at what was done, and begin again", e.Name, why)
}

// Unwrap returns the reason why the lease could not be renewed, or nil if it was taken.
func (e *LostError) Unwrap() error { return e.Err }

// Is reports whether target is ErrLost, for errors.Is.
func (e *LostError) Is(target error) bool { return target == ErrLost }
