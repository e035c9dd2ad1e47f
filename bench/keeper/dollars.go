package keeper

import "time"

// Prices of DynamoDB on demand in US East (N. Virginia), table class Standard, in
// dollars. Deletions by time to live are free.
const (
	dollarsPerWriteUnit   = 0.625e-6
	dollarsPerReadUnit    = 0.125e-6 // for a consistent read of up to 4 KB
	dollarsPerGBMonth     = 0.25
	bytesOfIndexing       = 100 // extra bytes of storage charged for each item
	month                 = 30 * 24 * time.Hour
	recordKept            = 49 * time.Hour // life of a record's item, see budget.Submit
	bytesPerGB            = 1e9
	secondsOfMonth        = float64(month / time.Second)
	secondsThatRecordsAre = float64(recordKept / time.Second)
)

// bill is the cost of a load in a month of 30 days, in dollars.
type bill struct{ writes, reads, storage, total float64 }

// monthlyBill returns the bill of a usage a second: write and read units, and items with their bytes, which are
// stored for the life of a record.
func monthlyBill(writes, reads, items, bytes float64) bill {
	b := bill{
		writes:  writes * secondsOfMonth * dollarsPerWriteUnit,
		reads:   reads * secondsOfMonth * dollarsPerReadUnit,
		storage: (bytes + items*bytesOfIndexing) * secondsThatRecordsAre / bytesPerGB * dollarsPerGBMonth,
	}
	b.total = b.writes + b.reads + b.storage
	return b
}
