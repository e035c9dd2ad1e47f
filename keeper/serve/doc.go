// Package keeper is the process around budgethttp.Server: listeners, TLS, proxies, metrics,
// background work that one of many processes does, and an orderly shutdown.
package keeper
