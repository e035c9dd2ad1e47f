// Package rules leaves a rule of the protocol out of what a limiter sends, so that a
// test can show what the rule is for: with it a law holds, without it it breaks.
//
//	clauses.go  a statement taken apart into its conditions, and put together
//	without.go  the conditions that can be left out
//	lapsed.go   what lapses, given back
//
// It works on the seam between a lane and its store, [lane.Store], and knows no
// limiter. It is for tests alone.
package rules
