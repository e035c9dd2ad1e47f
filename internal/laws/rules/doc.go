// Package rules leaves a rule of the protocol out of a limiter's requests, so that a test can show its
// purpose: with the rule a law holds, without it the law breaks.
//
//	clauses.go  a statement taken apart into its conditions, and put together
//	without.go  the conditions that can be left out
//	lapsed.go   a give-back of lapsed tokens
//
// It works between a lane and its store, [lane.Store], and knows no limiter. It is for tests alone.
package rules
