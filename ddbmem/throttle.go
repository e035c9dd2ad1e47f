package ddbmem

import "github.com/dynalimit/dynalimit/ddbmem/internal/value"

func errThrottled() *Error { return fail("ThrottlingException", "%s", throttledText) }

// isThrottled reports whether a partition of the table throttles a call.
func isThrottled(c *call, t *table, hash value.Value, write bool) bool {
	if !c.db.partitions.isExhausted(partitionUse{t.name, hash, write}, c.at) {
		return false
	}
	c.throttled++
	return true
}

// chargeRead charges the reading of a partition of a table.
func chargeRead(c *call, t *table, hash value.Value, cost halves) {
	c.use.useOf(t).read += cost
	c.db.partitions.takeUnits(partitionUse{t.name, hash, false}, cost, c.at)
}

// chargedWrite charges a write, or one that was refused, and its partition.
func chargedWrite(c *call, ch *change, times int64, charge func(*usage, *change, int64)) {
	use := c.use.useOf(ch.table)
	before := use.write
	charge(&c.use, ch, times)
	c.db.partitions.takeUnits(partitionUse{ch.table.name, ch.key.hash, true}, use.write-before, c.at)
}

// throttleTransact gives the items in throttling partitions their reasons. throttled is true if there
// are any: then nothing is written, and nothing costs.
func throttleTransact(c *call, changes []*change, reasons []Reason) (throttled bool) {
	for i, ch := range changes {
		if ch != nil && isThrottled(c, ch.table, ch.key.hash, true) {
			reasons[i] = Reason{Code: "ThrottlingError", Message: throttledText}
			throttled = true
		}
	}
	return throttled
}

// throttledWhole reports whether all of a batch is throttled.
func throttledWhole(items int, c *call) bool { return c.throttled > 0 && c.throttled == int64(items) }
