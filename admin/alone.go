package admin

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// AloneOptions are the options of Alone. The zero value fails at once while another process
// holds the lease.
type AloneOptions struct {
	// Hold is the length of the lease after each renewal, which comes after a third of it.
	// Other processes wait for Hold, and 5 s more, after a holder's death. From a second to an
	// hour. Defaults to a minute.
	Hold time.Duration
	// Wait is the longest wait for another holder. Defaults to 0.
	Wait time.Duration
	// OnWait receives the holder before each pause of a second, on the goroutine that
	// called Alone. Defaults to nil.
	OnWait func(*fault.LockedError)
}

// Alone runs do while no other process runs anything under the name, in the
// repository's namespace. The name is of the letters a to z, and -, at most 64.
//
// A lease in the table keeps others out. It is renewed until do returns, released
// afterwards, and ends by itself when the process dies. If the lease cannot be renewed, the context of do
// ends, with a *fault.LostError as its cause, a sixth of Hold before
// another process can get the lease; then Alone fails with that error, also if do returns nil. The
// clocks of processes may differ by 5 s. A process that stood still for longer than Hold
// notices only afterwards: make do's changes conditional on its reads.
//
// It returns do's error. It fails with a *fault.LockedError while another process holds the lease, and
// as every change does; then it did not call do.
func (a *Admin) Alone(ctx context.Context, name string, opts *AloneOptions, do func(ctx context.Context) error) error {
	o := AloneOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Hold == 0 {
		o.Hold = time.Minute
	}
	switch {
	case do == nil:
		return invalid("do", "is nil; give the function to run")
	case o.Hold < lock.ShortestHold || o.Hold > lock.LongestHold:
		return invalid("options.Hold", "is %v; give %v to %v", o.Hold, lock.ShortestHold, lock.LongestHold)
	case o.Wait < 0:
		return invalid("options.Wait", "is %v; give 0 or more", o.Wait)
	}
	if reason := schema.CheckLease(name); reason != "" {
		return invalid("name", "%s", reason)
	}
	if err := a.d.checkChange(ctx); err != nil {
		return err
	}
	l := &lock.Lock{Table: a.d.Table, Key: a.d.Keys.Lease(name), Name: name, Holder: a.d.Author, Hold: o.Hold, Now: a.d.Clock.Now}
	return l.Do(ctx, o.Wait, o.OnWait, do)
}
