package keeper

import "time"

// Prices of DynamoDB on demand in US East (N. Virginia), table class Standard, in
// dollars. Deletions by time to live are free.
const (
	dollarsPerWriteUnit   = 0.625e-6
	dollarsPerReadUnit    = 0.125e-6 // of a consistent read of up to 4 KB
	dollarsPerGBMonth     = 0.25
	bytesOfIndexing       = 100 // that storage is charged for each item besides
	month                 = 30 * 24 * time.Hour
	recordKept            = 49 * time.Hour // what a record's item lives, see budget.Submit
	bytesPerGB            = 1e9
	secondsOfMonth        = float64(month / time.Second)
	secondsThatRecordsAre = float64(recordKept / time.Second)
)

// bill is what a load costs in a month of 30 days, in dollars.
type bill struct{ writes, reads, storage, total float64 }

// monthly is the bill of what is used a second: write and read units, and items with their
// bytes, which are kept for as long as a record is.
func monthly(writes, reads, items, bytes float64) bill {
	b := bill{
		writes:  writes * secondsOfMonth * dollarsPerWriteUnit,
		reads:   reads * secondsOfMonth * dollarsPerReadUnit,
		storage: (bytes + items*bytesOfIndexing) * secondsThatRecordsAre / bytesPerGB * dollarsPerGBMonth,
	}
	b.total = b.writes + b.reads + b.storage
	return b
}
