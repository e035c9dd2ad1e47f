// Package table is the DynamoDB table of a repository: whole reads, queries that are
// followed to their end, changes that are tried again after conflicts, and
// the errors that users see. It does not know the meaning of the items.
package table
