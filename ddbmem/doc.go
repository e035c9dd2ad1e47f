// Package ddbmem is a DynamoDB in process, behind the real SDK client.
//
// New makes an empty database; its Client is an ordinary *dynamodb.Client whose
// requests are answered in the process, so that production code, its expressions
// and its marshalling run unchanged with nothing installed. A DB is an
// http.Handler too, for clients in any language.
package ddbmem
