package ddbmem

import "github.com/dynalimit/dynalimit/ddbmem/internal/value"

// errThrottled returns the ThrottlingException of a partition without remaining throughput.
func errThrottled() *Error { return newError("ThrottlingException", "%s", throttledText) }

// isThrottled reports whether the allowance of a partition key, of writes or else of reads, is used up. If so
// it adds one to c.throttled. It takes nothing from the allowance.
func isThrottled(c *call, t *table, hash value.Value, write bool) bool {
	if !c.db.partitions.isExhausted(partitionUse{t.name, hash, write}, c.at) {
		return false
	}
	c.throttled++
	return true
}

// chargeRead adds the cost of a read, in half units, to the call's usage of the table. It also subtracts it
// from the allowance of the partition key.
func chargeRead(c *call, t *table, hash value.Value, cost halves) {
	c.use.tableEntry(t).read += cost
	c.db.partitions.takeUnits(partitionUse{t.name, hash, false}, cost, c.at)
}

// chargeChange adds the cost of a write to the call's usage by charge, chargeWrite or chargeRefused. It
// subtracts the table's part, without indexes, from the partition key's allowance. times is 2 in transactions,
// else 1.
func chargeChange(c *call, ch *change, times int64, charge func(*usage, *change, int64)) {
	use := c.use.tableEntry(ch.table)
	before := use.write
	charge(&c.use, ch, times)
	c.db.partitions.takeUnits(partitionUse{ch.table.name, ch.key.hash, true}, use.write-before, c.at)
}

// throttleTransact sets the reason ThrottlingError for every change in a throttled partition, and counts each
// in c.throttled. It reports whether there is one; the caller then writes nothing. It skips nil changes.
func throttleTransact(c *call, changes []*change, reasons []Reason) (throttled bool) {
	for i, ch := range changes {
		if ch != nil && isThrottled(c, ch.table, ch.key.hash, true) {
			reasons[i] = Reason{Code: "ThrottlingError", Message: throttledText}
			throttled = true
		}
	}
	return throttled
}

// isBatchThrottled reports whether partitions throttled all items of a batch. An empty batch is not throttled.
func isBatchThrottled(items int, c *call) bool { return c.throttled > 0 && c.throttled == int64(items) }
