// Package pricefeed keeps the prices of a budget.Keeper fresh: a Refresher loads a price list
// from a Source on a schedule, and imports it (budget.Prices.Import), which takes what
// is plausible and holds back and reports the rest.
//
// URL and File are sources, and so is anything with the one method of Source. Several processes may refresh the same tables: each price is stored once.
package pricefeed
