// Package prices keeps the prices of a budget.Keeper fresh: a Refresher loads a price list
// from a Source on a schedule, and imports it (budget.Keeper.ImportPrices), which takes what
// is plausible and holds back and reports the rest.
//
// URL and File are sources; a bucket of S3 is one with the one method of Source, see its
// example. Several processes may refresh the same tables: each price is stored once.
package prices
