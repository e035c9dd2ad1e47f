// Package testworld is what tests of several packages have in common: a DynamoDB to test on,
// recorded requests with their golden files, and faults. Nothing that ships imports it.
package testworld
