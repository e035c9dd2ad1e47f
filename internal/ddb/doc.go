// Package ddb is what limiter and budget share about talking to DynamoDB: one
// meaning of every SDK error (Classify), one backoff between tries (Backoff,
// Sleep), one clock corrected by DynamoDB's (Clock), one error for "the store
// did not answer" (ErrUnavailable, RetryAfter).
package ddb
