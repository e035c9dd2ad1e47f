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

// setIndex finds a list index on the left of a SET.
var setIndex = regexp.MustCompile(`(SET|,) [^,="]*\[\d\][^,="]* = `)

var knownDifferences = []known{
	{
		reason:    "ALL_OLD of an item that did not exist is nothing; the engine returns its key",
		sameItems: true,
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "UpdateItem") && strings.Contains(r.text, "ALL_OLD") && ours.text == "{}" && onlyKey.MatchString(other.text)
		},
	},
	{
		reason: "ADD, DELETE and REMOVE below what is missing or null name an invalid path; the engine ignores them or makes the containers",
		applies: func(r request, ours, other outcome) bool {
			return strings.Contains(ours.message, "document path") && regexp.MustCompile(`REMOVE|DELETE|ADD`).MatchString(r.text)
		},
	},
	{
		reason: "a null holds nothing, so that SET below it names an invalid path; the engine puts a map or list in its place",
		applies: func(r request, ours, other outcome) bool {
			return strings.Contains(ours.message, "document path") && strings.Contains(r.text, "null") && !other.failed()
		},
	},
	{
		reason: "the expressions of a transaction are checked as all others are, and a wrong one is a ValidationException; the engine checks less there, and cancels the transaction",
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "Transact") && isStatic(ours.message) && other.text != "error ValidationException"
		},
	},
	{
		reason: "SET past the end of a list appends, and below an element that is missing has an invalid path; the engine fills the gap with nulls",
		applies: func(r request, _, other outcome) bool {
			return setIndex.MatchString(r.text) && !other.failed()
		},
	},
	{
		reason: "every placeholder must be defined; the engine misses those of a part it need not evaluate",
		applies: func(_ request, ours, other outcome) bool {
			return strings.Contains(ours.message, "is not defined; attribute") && !other.failed()
		},
	},
	{
		reason:    "UPDATED_OLD and UPDATED_NEW hold the elements of a list that were written; the engine answers the whole list",
		sameItems: true,
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "UpdateItem") && strings.Contains(r.text, "UPDATED_") && strings.Contains(r.text, "]") && !ours.failed() && !other.failed()
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
		reason: "an operator's first operand may not be repeated; the engine sees to that in contains alone",
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
		reason:    "the operands of a filter are checked; the engine does that for conditions and item by item",
		sameItems: true,
		applies: func(r request, ours, other outcome) bool {
			return strings.HasPrefix(r.text, "Query") && strings.HasPrefix(ours.message, "Invalid FilterExpression: ") && !strings.Contains(ours.message, "Syntax") && !other.failed()
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
