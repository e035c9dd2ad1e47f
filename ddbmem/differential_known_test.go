package ddbmem_test

import (
	"regexp"
	"strings"
)

// known is a difference between DynamoDB and dynoxide 0.13.0, the engine that the
// differential test is run against. It excuses what it names and nothing else.
type known struct {
	reason string
	// sameItems: only the answers differ, the items must not.
	sameItems bool
	applies   func(r request, ours, other outcome) bool
}

var onlyKey = regexp.MustCompile(`^{PK="[^"]*" SK="."}$`)

var knownDifferences = []known{
	{
		reason:    "ALL_OLD of an item that did not exist is nothing; the engine returns its key",
		sameItems: true,
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "UpdateItem") && strings.Contains(r.text, "ALL_OLD") && ours.text == "{}" && onlyKey.MatchString(other.text)
		},
	},
	{
		reason: "removing something nested in what does not exist is an invalid path; the engine ignores it",
		applies: func(r request, ours, other outcome) bool {
			return strings.Contains(ours.message, "document path") && regexp.MustCompile(`REMOVE|DELETE`).MatchString(r.text)
		},
	},
	{
		reason:    "an invalid expression in a transaction is a ValidationException; the engine cancels the transaction",
		sameItems: true,
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "Transact") && isStatic(ours.message) && strings.Contains(other.text, "TransactionCanceled")
		},
	},
	{
		reason:    "a request is checked whole before its condition is looked at; the engine may find the condition false first",
		sameItems: true,
		applies: func(_ request, ours, other outcome) bool {
			return ours.text == "error ValidationException" && isStatic(ours.message) && strings.Contains(other.text, "ConditionalCheckFailed")
		},
	},
	{
		reason:    "projected paths that take one attribute for a list and for a map conflict; the engine sees to that in updates alone",
		sameItems: true,
		applies: func(_ request, ours, other outcome) bool {
			return strings.HasPrefix(ours.message, "Invalid ProjectionExpression: Two document paths conflict") && !other.failed()
		},
	},
	{
		reason: "the operands of a condition are checked in a transaction too; the engine leaves that out there",
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "Transact") && strings.HasPrefix(ours.message, "Invalid ConditionExpression: Incorrect operand type")
		},
	},
	{
		reason: "an operator's two operands may not be one path; the engine sees to that in contains alone",
		applies: func(_ request, ours, other outcome) bool {
			return strings.Contains(ours.message, "first operand must be distinct") && other.text != "error ValidationException"
		},
	},
	{
		reason: "an ordering takes literals that have an order; the engine finds that others do not compare",
		applies: func(_ request, ours, other outcome) bool {
			return regexp.MustCompile(`operator or function: ([<>]=?|BETWEEN), operand type`).MatchString(ours.message) && other.text != "error ValidationException"
		},
	},
	{
		reason:    "a filter's operands are checked even if there is nothing to filter; the engine checks them item by item",
		sameItems: true,
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "Query") && ours.text == "error ValidationException" && strings.HasPrefix(ours.message, "Invalid FilterExpression") && strings.HasPrefix(other.text, "0 ")
		},
	},
}

// isStatic tells the errors that need no item to be found.
func isStatic(message string) bool {
	return strings.HasPrefix(message, "Invalid ") || strings.HasPrefix(message, "Value provided in Expression")
}

// knownDifference is the known difference a request may show, nil when none.
func knownDifference(r request, ours, other outcome) *known {
	for i := range knownDifferences {
		if knownDifferences[i].applies(r, ours, other) {
			return &knownDifferences[i]
		}
	}
	return nil
}
