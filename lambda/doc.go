// Package lambda runs the aggregator of usage as a function of AWS Lambda, which DynamoDB's
// stream calls with its records.
//
// A Handler takes batches of records, adds them to usage, and answers with the first record that
// must come again: it gives up no readable record. An event of a schedule
// makes it close hours. The program in cmd/aggregator is a complete function; FromLambda
// is for functions of one's own.
package lambda
