// Package pricefeed keeps the prices of a budget.Keeper up to date. A Refresher loads a price
// list from a Source on a schedule and imports it (budget.Prices.Import), which stores
// plausible prices, and holds back and reports the others.
//
// URL and File are sources, and so is any other type with the method of Source. Several
// processes may refresh the same tables: each price is stored once.
package pricefeed
