// Package tests holds the suites of the whole limiter: calls, leases, cascades,
// configuration, outages and the laws, on a table. Tests of one type stand beside it.
package tests
