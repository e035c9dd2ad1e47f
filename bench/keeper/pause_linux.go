package keeper

import (
	"syscall"
	"time"
)

// pause waits in the system. The runtime's own timers come up to a millisecond late in an idle process, while
// a due request has to be answered in two.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // a signal ends it sooner; the request is then early
}
