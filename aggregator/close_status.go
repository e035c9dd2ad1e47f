package aggregator

import (
	"fmt"
	"time"
)

// CloseStatus says how far the closing of an hour is. It is a plain value.
type CloseStatus struct {
	// Namespace is the namespace of the hour; empty for usage without one.
	Namespace string
	// Window is the window that is summed now: the hour, or the day or month that ends with it.
	Window Window
	// Start is the begin of that window.
	Start time.Time
	// Final says that the window becomes final.
	Final bool
	// Part is the part of the window that is summed now, from 1 to Parts. The last one is the
	// sums of resources, plans and parents.
	Part, Parts int
	// Done is how many snapshots, series or sums of this part are complete, of Units; both are 0
	// until the part was listed.
	Done, Units int
}

// String describes the progress for people: the window, the namespace, the part of the work, and the number
// of finished units in it.
func (s CloseStatus) String() string {
	of := ""
	if s.Namespace != "" {
		of = " of namespace " + s.Namespace
	}
	return fmt.Sprintf("closing the %s of %s%s, part %d of %d, %d of %d done", s.Window, s.Start.Format("2006-01-02T15:04Z"), of, s.Part, s.Parts, s.Done, s.Units)
}

// Status returns the progress of the current closing; false if no call closes usage. If several do,
// it returns the progress that was reported last.
func (c *Closer) Status() (CloseStatus, bool) {
	if c == nil {
		return CloseStatus{}, false
	}
	if at := c.status.Load(); at != nil {
		return *at, true
	}
	return CloseStatus{}, false
}
