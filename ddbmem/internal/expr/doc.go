// Package expr parses and evaluates DynamoDB's expressions: condition and
// filter, key condition, update and projection. A parsed expression is immutable
// and may be cached by its text; names and values come with each use in an Env.
package expr
