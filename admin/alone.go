package admin

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/lock"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// AloneOptions are the options of Alone. The zero value fails at once while somebody else
// is alone.
type AloneOptions struct {
	// Hold is how long the hold lasts after each renewal, which comes after a third of it:
	// for so long, and 5 s more, others wait for a process that died. From a second to an
	// hour. Defaults to a minute.
	Hold time.Duration
	// Wait is how long to wait while somebody else is alone. Defaults to 0.
	Wait time.Duration
	// OnWait is told who is alone, before each pause of a second, by the goroutine that
	// called Alone. Defaults to nobody.
	OnWait func(*fault.HeldError)
}

// Alone does something while no other process does anything under the name, in the
// repository's namespace. The name is of the letters a to z, and -, at most 64.
//
// A lease in the table keeps others out. It is renewed for as long as do takes, released
// afterwards, and ends by itself when the process dies. The context that do gets ends, with
// a *fault.LostError as its cause, when the lease cannot be renewed, a sixth of Hold before
// anybody else can be alone; then Alone fails with that error, also if do returns none. The
// clocks of processes may differ by 5 s. A process that stood still for longer than Hold
// finds out when it goes on: what do changes should be conditioned on what it read.
//
// It returns what do returns. It fails with a *fault.HeldError while somebody else is alone, and
// as every change does; then do was not called.
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
		return invalid("do", "is nil; give what is to be done")
	case o.Hold < lock.ShortestHold || o.Hold > lock.LongestHold:
		return invalid("options.Hold", "is %v; give %v to %v", o.Hold, lock.ShortestHold, lock.LongestHold)
	case o.Wait < 0:
		return invalid("options.Wait", "is %v; give 0 or more", o.Wait)
	}
	if reason := schema.CheckLease(name); reason != "" {
		return invalid("name", "%s", reason)
	}
	if err := a.d.mayChange(ctx); err != nil {
		return err
	}
	l := &lock.Lock{Table: a.d.Table, Key: a.d.Keys.Lease(name), Name: name, Holder: a.d.Author, Hold: o.Hold, Now: a.d.Clock.Now}
	return l.Do(ctx, o.Wait, o.OnWait, do)
}
