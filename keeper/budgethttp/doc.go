// Package budgethttp serves budgets over HTTP: package budget's keeper as a REST API,
// for services that have no access to DynamoDB.
//
// A Server is an http.Handler. It describes itself at /openapi.json, readably at /docs,
// and everything else is below /api/v1. Every answer that is no success has one shape,
// with a code, a message and the request's id; what went wrong inside is logged and never
// sent.
package budgethttp
