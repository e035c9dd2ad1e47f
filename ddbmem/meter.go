package ddbmem

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// counter is the running total of one operation.
type counter struct {
	requests, refused, throttled, read, write atomic.Int64 // capacity in half units
}

// Usage is the usage of one operation.
type Usage struct {
	// Requests counts arrivals, also those a fault answered or dropped.
	Requests int64
	// Refused counts writes refused by a condition, in a transaction one per item.
	Refused int64
	// Throttled counts requests that a partition throttled, see WithPartitions: in a batch or
	// transaction one per item.
	Throttled int64
	// ReadUnits and WriteUnits are the capacity units consumed, by failed
	// conditions too.
	ReadUnits, WriteUnits float64
}

// Meter is a snapshot of the requests to a DB, by operation ("UpdateItem").
type Meter struct {
	// Operations has the operations with at least one request.
	Operations map[string]Usage
}

// Meter returns the requests and capacity units of each operation since New.
func (db *DB) Meter() Meter {
	m := Meter{Operations: map[string]Usage{}}
	for op, c := range db.counters {
		u := Usage{
			Requests: c.requests.Load(), Refused: c.refused.Load(), Throttled: c.throttled.Load(),
			ReadUnits: halves(c.read.Load()).units(), WriteUnits: halves(c.write.Load()).units(),
		}
		if u != (Usage{}) {
			m.Operations[op] = u
		}
	}
	return m
}

// Requests returns the number of requests of all operations, also of requests that a fault answered or dropped.
func (m Meter) Requests() int64 { return m.total().Requests }

// Refused returns the number of writes that a condition refused, one per item of a transaction.
func (m Meter) Refused() int64 { return m.total().Refused }

// Throttled returns the number of items that partitions throttled.
func (m Meter) Throttled() int64 { return m.total().Throttled }

// ReadUnits returns the read capacity units consumed by all operations.
func (m Meter) ReadUnits() float64 { return m.total().ReadUnits }

// WriteUnits returns the write capacity units consumed by all operations.
func (m Meter) WriteUnits() float64 { return m.total().WriteUnits }

// total returns the sum of the usage of all operations, with capacity in units.
func (m Meter) total() Usage {
	var t Usage
	for _, u := range m.Operations {
		t.Requests += u.Requests
		t.Refused += u.Refused
		t.Throttled += u.Throttled
		t.ReadUnits += u.ReadUnits
		t.WriteUnits += u.WriteUnits
	}
	return t
}

// Sub returns the usage between the earlier snapshot and m, by operation. It leaves out operations without
// usage in between, and changes neither snapshot.
func (m Meter) Sub(earlier Meter) Meter {
	d := Meter{Operations: map[string]Usage{}}
	for op, u := range m.Operations {
		e := earlier.Operations[op]
		u = Usage{u.Requests - e.Requests, u.Refused - e.Refused, u.Throttled - e.Throttled, u.ReadUnits - e.ReadUnits, u.WriteUnits - e.WriteUnits}
		if u != (Usage{}) {
			d.Operations[op] = u
		}
	}
	return d
}

// String returns one line per operation, sorted by name: its requests, capacity units and refused writes.
func (m Meter) String() string {
	ops := make([]string, 0, len(m.Operations))
	for op := range m.Operations {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	var b strings.Builder
	for _, op := range ops {
		u := m.Operations[op]
		fmt.Fprintf(&b, "%s: %d requests, %g RCU, %g WCU, %d refused\n", op, u.Requests, u.ReadUnits, u.WriteUnits, u.Refused)
	}
	return b.String()
}

// add adds a request's capacity, in half units, its refused writes and its throttled items to the totals of its
// operation. It does not count the request itself.
func (c *counter) add(use usage, refused, throttled int64) {
	read, write := use.totals()
	c.read.Add(int64(read))
	c.write.Add(int64(write))
	c.refused.Add(refused)
	c.throttled.Add(throttled)
}
