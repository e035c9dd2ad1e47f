// Package lock lets one process at a time be alone at something: it holds a lease, an item
// of a table that ends by itself when its holder dies.
//
// lease.go decides, from values and times; lock.go asks the table; hold.go keeps a lease
// for as long as something takes, and ends its context before anybody else can be alone.
//
// A process that stands still, because its machine does, looks at no context. What it
// writes once it goes on has to be conditioned on the version of what it changes.
package lock
