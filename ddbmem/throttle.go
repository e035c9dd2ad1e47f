package ddbmem

import "github.com/dynalimit/dynalimit/ddbmem/internal/value"

// errThrottled returns the ThrottlingException of a partition without remaining throughput.
func errThrottled() *Error { return newError("ThrottlingException", "%s", throttledText) }

// isThrottled reports whether the allowance of a partition key is used up, for writes or for reads. If so it
// counts the item as throttled.
func isThrottled(c *call, t *table, hash value.Value, write bool) bool {
	if !c.db.partitions.isExhausted(partitionUse{t.name, hash, write}, c.at) {
		return false
	}
	c.throttled++
	return true
}

// chargeRead adds the cost of a read, in half units, to the call's usage. It also takes it from the allowance
// of the partition key.
func chargeRead(c *call, t *table, hash value.Value, cost halves) {
	c.use.useOf(t).read += cost
	c.db.partitions.takeUnits(partitionUse{t.name, hash, false}, cost, c.at)
}

// chargeChange adds the cost of a write to the call's usage by charge, chargeWrite or chargeRefused. It takes
// the table's part from the partition key's allowance. times is 2 in transactions.
func chargeChange(c *call, ch *change, times int64, charge func(*usage, *change, int64)) {
	use := c.use.useOf(ch.table)
	before := use.write
	charge(&c.use, ch, times)
	c.db.partitions.takeUnits(partitionUse{ch.table.name, ch.key.hash, true}, use.write-before, c.at)
}

// throttleTransact enters the reason ThrottlingError for every item in a throttled partition, and counts it.
// It returns true if there is one; the caller then writes nothing.
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
