// Package testworld is the common part of the tests of several packages: a DynamoDB to test on,
// recorded requests with their golden files, and faults. Only tests import it.
package testworld
