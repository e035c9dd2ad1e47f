// Package prices has the prices of model calls: tokens by class and their rates, lists of prices, and
// the built-in Catalog. It also has the record of one call (Usage) and the denial of a quota
// (QuotaExceededError), which a keeper of budgets and its callers share.
//
// CatalogList and Load make a List, which prices calls for limits on money (llm.Cost). Price and Book
// are the rows by which a keeper counts spend.
package prices
