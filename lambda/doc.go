// Package lambda runs the aggregator of usage as a function of AWS Lambda, which DynamoDB's
// stream calls with its records.
//
// A Handler takes batches of records, adds them to usage, and answers from which record on
// the batch is to come again: nothing that can be read is given up. An event of a schedule
// makes it close hours. The program in cmd/aggregator is such a function, whole; FromLambda
// is for functions of one's own.
package lambda
