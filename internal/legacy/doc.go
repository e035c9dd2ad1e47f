// Package legacy turns items of the layout before composite items, one for each limit,
// into today's: a bucket at its level, a configuration with the limits that it said. What
// is turned appears in the transaction that deletes what it was, as it was seen, so that
// whoever turns it first wins, and a kill at any moment leaves one or the other.
package legacy
