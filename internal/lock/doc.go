// Package lock runs something in one process at a time: it holds a lease, an item
// of a table that ends by itself when its holder dies.
//
// lease.go decides, from values and times; lock.go asks the table; hold.go keeps a lease
// while a function runs, and ends its context before another process can get the lease.
//
// A process that stands still, because its machine does, does not notice the end of its context. Its
// later writes must be conditioned on the versions of the items that they change.
package lock
