// Package dynalimit limits what services spend on LLM calls: token-bucket rate
// limits, nested per key, project and organisation, kept in one DynamoDB table.
package dynalimit
