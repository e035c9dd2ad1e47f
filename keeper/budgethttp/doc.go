// Package budgethttp serves budgets over HTTP: it is a REST API for a budget.Keeper, for
// services without access to DynamoDB.
//
// A Server is an http.Handler. It serves its OpenAPI document at /openapi.json, a readable page
// at /docs, and everything else below /api/v1. All error responses have the same shape, with a
// code, a message and the request id. Causes of internal errors are logged and never sent.
package budgethttp
