// Package table is the DynamoDB table of a repository: whole reads, queries that are
// followed to their end, changes that are tried again when others were in the way, and
// the errors that users see. It does not know what the items mean.
package table
