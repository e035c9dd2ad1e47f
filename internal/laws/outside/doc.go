// Package outside plays generated histories of several limiters on one table, in virtual
// time, and judges them by what users see and what the store commits: package laws beside it
// looks inside as well. So its histories may have what laws' cannot: outages of the table, of
// one partition and of the configuration's reads under every policy, limits, plans, parents
// and policies that change in traffic, several limiters on one repository, clocks that step,
// room for two buckets, processes that end while their leases go on, and shares of a fleet's.
//
// The oracle is made from leases: the levels that a bucket admitted (not Degraded) fill a
// queue, which drains at the fastest rate that the limit ever had, and no admission lifts it
// above the largest burst. What is given back shrinks the queue by what the bucket took for
// that lease, at most, now or later: so a bucket that gives back what it was never charged is noticed, in an
// outage and after it. What a process's share admits under Local fills another queue, of its
// part of the limit. At the end each counter is what leases used, give or take what Health says
// is in doubt, and Close was lost.
//
// A failure prints its seed; DYNALIMIT_SEED plays that history alone, and
// DYNALIMIT_HISTORIES says how many there are. The package has tests only.
package outside
