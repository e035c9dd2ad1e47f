package keeper

import (
	"syscall"
	"time"
)

// pause waits in the system: the runtime's own timers come up to a millisecond late when
// nothing else is to be done, and a request is due that is to be answered in two.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil) // a signal ends it sooner: then the request is early
}
