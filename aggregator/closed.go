package aggregator

import "time"

// ClosedHour is an hour of a namespace that was closed.
type ClosedHour struct {
	// Namespace is the namespace of the hour; "" is the layout without one.
	Namespace string
	// Hour is the hour's beginning.
	Hour time.Time
	// Final says that no record of it can come any more.
	Final bool
	// Snapshots is how many it has, and Sums how many were written: of the hour, and of the
	// day and month that it ends.
	Snapshots, Sums int
	// Gaps are those of the hour's snapshots, and between them and the ones before. Those
	// of an hour that is not final may go when more records come.
	Gaps []Gap
}

// Closed is the result of a Closer's run. It is a plain value.
type Closed struct {
	// Hours is how many hours were closed for the first time, and Final how many were made
	// final; an hour may be in both.
	Hours, Final int
	// Snapshots is how many snapshots these hours have, and Sums how many sums were
	// written.
	Snapshots, Sums int
	// Gaps are the found gaps.
	Gaps []Gap
}

// addHour adds the snapshots, sums and gaps of a closed hour; it leaves Hours and Final.
func (c *Closed) addHour(h ClosedHour) {
	c.Snapshots += h.Snapshots
	c.Sums += h.Sums
	c.Gaps = append(c.Gaps, h.Gaps...)
}
