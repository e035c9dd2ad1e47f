// Package keeper is the process around budgethttp.Server: listeners, TLS, proxies,
// metrics, the work that one of many processes does, and how it all ends.
package keeper
