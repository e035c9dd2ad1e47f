// Package outside plays generated histories of several limiters on one table, in virtual time. It judges them
// only by the results that users see and the committed writes, while package laws inspects limiters too. So
// its histories may include more: outages of the table, of one partition and of configuration reads under
// every policy; limits, plans, parents and policies that change in traffic; several limiters on one
// repository; clocks that step; room for two buckets; processes that end while their leases go on; and shares
// of a fleet.
//
// The oracle is made from leases. The levels that a bucket admitted (not Degraded) fill a queue. It drains at
// the fastest rate that the limit ever had, and no admission may lift it above the largest burst. A give-back
// shrinks the queue by at most the amount that the bucket took for that lease, now or later. So the oracle
// notices a bucket that gives back tokens it never charged, in an outage and after it. The admissions of a
// process's share under Local fill another queue, of its part of the limit. At the end each counter equals
// the usage of the leases, within the amounts in doubt by Health and those lost at Close.
//
// A failure prints its seed; DYNALIMIT_SEED plays that history alone, and
// DYNALIMIT_HISTORIES says how many there are. The package has tests only.
package outside
