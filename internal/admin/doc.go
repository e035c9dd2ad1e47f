// Package admin is what administrators change in the table of a repository: entities,
// the configuration of limits, namespaces, buckets by hand. Every change is one
// transaction with its event, or begins with a mark and its event in one and can be
// repeated until it is done.
//
// It takes and returns the values of internal/schema: the root package checks input,
// calls, converts, and forgets what its caches hold.
package admin
