// Package legacy turns items of the layout before composite items, one for each limit,
// into today's: a bucket at its level, a configuration with its limits. A
// turned item appears in the transaction that deletes the old ones, on the condition that they are
// unchanged. So the first writer wins, and a kill at any moment leaves one or the other.
package legacy
