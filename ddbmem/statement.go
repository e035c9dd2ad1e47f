package ddbmem

import (
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/ddbmem/internal/expr"
	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// statement is one request about items, or one item of a transaction or batch,
// as it came in and with its expressions parsed.
type statement struct {
	table, index           string
	key, item, start       value.Map
	returnValues           string
	onFailure              string
	capacity               string
	selects                string
	consistent, backward   bool
	limit, segment, total  int64
	hasLimit, hasSegment   bool
	hasIndex, hasTotal     bool
	keys                   []value.Map
	env                    expr.Env
	conditionText          *string
	updateText             *string
	filterText             *string
	keyConditionText       *string
	projectionText         *string
	condition              *expr.Condition
	filter, keyCondition   *expr.Condition
	update                 *expr.Update
	projection             *expr.Projection
	namesGiven, valuesSeen bool
}

// members are the request members of each kind of statement. All
// others are refused, also the legacy parameters.
var members = map[string]string{
	"GetItem":           "TableName Key ConsistentRead ReturnConsumedCapacity ProjectionExpression ExpressionAttributeNames",
	"PutItem":           "TableName Item ReturnValues ReturnConsumedCapacity ReturnItemCollectionMetrics ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure",
	"UpdateItem":        "TableName Key UpdateExpression ReturnValues ReturnConsumedCapacity ReturnItemCollectionMetrics ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure",
	"DeleteItem":        "TableName Key ReturnValues ReturnConsumedCapacity ReturnItemCollectionMetrics ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure",
	"Query":             "TableName IndexName Select Limit ConsistentRead ScanIndexForward ExclusiveStartKey ReturnConsumedCapacity ProjectionExpression FilterExpression KeyConditionExpression ExpressionAttributeNames ExpressionAttributeValues",
	"Scan":              "TableName IndexName Select Limit ConsistentRead ExclusiveStartKey ReturnConsumedCapacity ProjectionExpression FilterExpression ExpressionAttributeNames ExpressionAttributeValues Segment TotalSegments",
	"KeysAndAttributes": "Keys ConsistentRead ProjectionExpression ExpressionAttributeNames",
	"PutRequest":        "Item",
	"DeleteRequest":     "Key",
	"Put":               "TableName Item ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure",
	"Update":            "TableName Key UpdateExpression ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure",
	"Delete":            "TableName Key ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure",
	"ConditionCheck":    "TableName Key ConditionExpression ExpressionAttributeNames ExpressionAttributeValues ReturnValuesOnConditionCheckFailure",
	"Get":               "TableName Key ProjectionExpression ExpressionAttributeNames",
}

var allowed = func() map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for kind, list := range members {
		all[kind] = map[string]bool{}
		for _, m := range strings.Fields(list) {
			all[kind][m] = true
		}
	}
	return all
}()

// readStatement reads a statement with the members that its kind may have, and leaves its expressions unparsed.
// It fails r for any other member.
func readStatement(r *wire.Reader, kind string) *statement {
	st := &statement{}
	may := allowed[kind]
	r.Object(func(member string) {
		if !may[member] {
			r.Fail(unsupportedError(member + " in " + kind))
			return
		}
		st.readMember(r, member)
	})
	return st
}

// readMember reads one member of a request into st: keys, items, texts of expressions, or by readScalar a
// member with a single value. Errors go to r.
func (st *statement) readMember(r *wire.Reader, member string) {
	text := func() *string { s := r.String(); return &s }
	switch member {
	case "TableName":
		st.table = readTableName(r)
	case "IndexName":
		st.index, st.hasIndex = r.String(), true
	case "Key":
		st.key = value.ReadMap(r)
	case "Item":
		st.item = value.ReadMap(r)
	case "Keys":
		r.Array(func() { st.keys = append(st.keys, value.ReadMap(r)) })
	case "ExclusiveStartKey":
		st.start = value.ReadMap(r)
	case "ConditionExpression":
		st.conditionText = text()
	case "UpdateExpression":
		st.updateText = text()
	case "FilterExpression":
		st.filterText = text()
	case "KeyConditionExpression":
		st.keyConditionText = text()
	case "ProjectionExpression":
		st.projectionText = text()
	case "ExpressionAttributeNames":
		st.namesGiven = true
		st.env.Names = map[string]string{}
		r.Object(func(k string) { st.env.Names[k] = r.String() })
	case "ExpressionAttributeValues":
		st.valuesSeen = true
		st.env.Values = value.ReadMap(r)
	default:
		st.readScalar(r, member)
	}
}

// readScalar reads a member with a single value into st. r gets an error for a value outside the member's
// enumeration.
func (st *statement) readScalar(r *wire.Reader, member string) {
	switch member {
	case "ReturnValues":
		st.returnValues = readEnum(r, "returnValues", "ALL_NEW", "UPDATED_OLD", "ALL_OLD", "NONE", "UPDATED_NEW")
	case "ReturnValuesOnConditionCheckFailure":
		st.onFailure = readEnum(r, "returnValuesOnConditionCheckFailure", "ALL_OLD", "NONE")
	case "ReturnConsumedCapacity":
		st.capacity = readCapacity(r)
	case "ReturnItemCollectionMetrics":
		readMetrics(r)
	case "Select":
		st.selects = readEnum(r, "select", "SPECIFIC_ATTRIBUTES", "COUNT", "ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES")
	case "ConsistentRead":
		st.consistent = r.Bool()
	case "ScanIndexForward":
		st.backward = !r.Bool()
	case "Limit":
		st.limit, st.hasLimit = r.Int(), true
	case "Segment":
		st.segment, st.hasSegment = r.Int(), true
	case "TotalSegments":
		st.total, st.hasTotal = r.Int(), true
	}
}

// readCapacity reads ReturnConsumedCapacity: INDEXES, TOTAL or NONE. For another value r gets an error.
func readCapacity(r *wire.Reader) string {
	return readEnum(r, "returnConsumedCapacity", "INDEXES", "TOTAL", "NONE")
}

// readMetrics reads ReturnItemCollectionMetrics, SIZE or NONE, and ignores it: only tables with local secondary
// indexes have such metrics. For another value r gets an error.
func readMetrics(r *wire.Reader) { readEnum(r, "returnItemCollectionMetrics", "SIZE", "NONE") }

// readEnum reads a string and returns it. If it is not one of values, r gets a validation error about the
// member.
func readEnum(r *wire.Reader, member string, values ...string) string {
	s := r.String()
	if r.Err() == nil && !slices.Contains(values, s) {
		r.Fail(validationError("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy enum value set: [%s]", s, member, strings.Join(values, ", ")))
	}
	return s
}

// readTableName reads a table's name, or its ARN, and returns the name. For an invalid name r gets an error,
// and the result is meaningless.
func readTableName(r *wire.Reader) string {
	s := r.String()
	if i := strings.LastIndex(s, ":table/"); i >= 0 && strings.HasPrefix(s, "arn:") {
		s = s[i+len(":table/"):]
	}
	if r.Err() == nil {
		if err := checkName("tableName", s); err != nil {
			r.Fail(err)
		}
	}
	return s
}

// checkName fails unless s may name a table or index: 3 to 255 letters, digits, underscores, dashes and dots.
// The error names the parameter member.
func checkName(member, s string) error {
	ok := len(s) >= 3 && len(s) <= 255
	for i := 0; i < len(s); i++ {
		ok = ok && isNameByte(s[i])
	}
	if ok {
		return nil
	}
	return validationError("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+ and have a length between 3 and 255", s, member)
}

// isNameByte reports whether c may occur in the name of a table or index.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// bindExpressions parses st's expressions, with a cache, into st's fields, and checks them. It fails if one is
// invalid, or if a placeholder is undefined, malformed or unused.
func (st *statement) bindExpressions(db *engine) error {
	err := st.checkPlaceholders()
	if err != nil {
		return err
	}
	if st.keyCondition, err = parseExpression(st, db, 'c', "KeyConditionExpression", st.keyConditionText, expr.ParseCondition); err != nil {
		return err
	}
	if st.filter, err = parseExpression(st, db, 'c', "FilterExpression", st.filterText, expr.ParseCondition); err != nil {
		return err
	}
	if st.condition, err = parseExpression(st, db, 'c', "ConditionExpression", st.conditionText, expr.ParseCondition); err != nil {
		return err
	}
	if st.update, err = parseExpression(st, db, 'u', "UpdateExpression", st.updateText, expr.ParseUpdate); err != nil {
		return err
	}
	if st.projection, err = parseExpression(st, db, 'p', "ProjectionExpression", st.projectionText, expr.ParseProjection); err != nil {
		return err
	}
	return st.checkUnused(st.usedPlaceholders())
}

// parseExpression returns the parsed expression of text, from the cache or parsed now, after a check with st's
// placeholders. It returns nil if text is nil. The cache separates equal texts by kind; the error names the
// request member, name.
func parseExpression[T interface{ Check(*expr.Env) error }](st *statement, db *engine, kind byte, name string, text *string, parse func(string) (T, error)) (T, error) {
	var none T
	if text == nil {
		return none, nil
	}
	e, err := parseCached(db, kind, *text, parse)
	if err == nil {
		err = e.Check(&st.env)
	}
	if err != nil {
		return none, validationError("Invalid %s: %v", name, err)
	}
	return e, nil
}

// usedPlaceholders returns the placeholders of names and values that each of st's expressions uses.
func (st *statement) usedPlaceholders() []expr.Refs {
	var used []expr.Refs
	for _, c := range []*expr.Condition{st.keyCondition, st.filter, st.condition} {
		if c != nil {
			used = append(used, c.Refs)
		}
	}
	if st.update != nil {
		used = append(used, st.update.Refs)
	}
	if st.projection != nil {
		used = append(used, st.projection.Refs)
	}
	return used
}

// checkPlaceholders fails if ExpressionAttributeNames or ExpressionAttributeValues are given without an
// expression, are empty, or have a malformed key.
func (st *statement) checkPlaceholders() error {
	values := st.takesValues()
	switch {
	case st.namesGiven && !values && st.projectionText == nil:
		return validationError("ExpressionAttributeNames can only be specified when using expressions")
	case st.valuesSeen && !values:
		return validationError("ExpressionAttributeValues can only be specified when using expressions")
	case st.namesGiven && len(st.env.Names) == 0:
		return validationError("ExpressionAttributeNames must not be empty")
	case st.valuesSeen && len(st.env.Values) == 0:
		return validationError("ExpressionAttributeValues must not be empty")
	}
	if err := checkPlaceholderKeys("ExpressionAttributeNames", st.env.Names, '#'); err != nil {
		return err
	}
	return checkPlaceholderKeys("ExpressionAttributeValues", st.env.Values, ':')
}

// takesValues reports whether st has an expression in which values may stand; in
// a projection only names may.
func (st *statement) takesValues() bool {
	return st.conditionText != nil || st.updateText != nil || st.filterText != nil || st.keyConditionText != nil
}

// checkPlaceholderKeys fails unless every key of given is a placeholder with the prefix, '#' or ':'. The
// error names the parameter member.
func checkPlaceholderKeys[V any](member string, given map[string]V, prefix byte) error {
	for k := range given {
		if !expr.ValidPlaceholder(k, prefix) {
			return validationError("%s contains invalid key: Syntax error; key: %q", member, k)
		}
	}
	return nil
}

// checkUnused fails if the request gives a name or value that no expression uses. used are the placeholders
// that the expressions use.
func (st *statement) checkUnused(used []expr.Refs) error {
	if len(used) == 1 && len(used[0].Names) == len(st.env.Names) && len(used[0].Values) == len(st.env.Values) {
		return nil
	}
	names, values := map[string]bool{}, map[string]bool{}
	for _, u := range used {
		for _, n := range u.Names {
			names[n] = true
		}
		for _, v := range u.Values {
			values[v] = true
		}
	}
	if err := checkUnusedKeys("ExpressionAttributeNames", st.env.Names, names); err != nil {
		return err
	}
	return checkUnusedKeys("ExpressionAttributeValues", st.env.Values, values)
}

// checkUnusedKeys returns an error that lists, sorted, the keys of given that are not used; nil if all are. The
// error names the parameter by the first argument.
func checkUnusedKeys[V any](what string, given map[string]V, used map[string]bool) error {
	var unused []string
	for k := range given {
		if !used[k] {
			unused = append(unused, k)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	slices.Sort(unused)
	return validationError("Value provided in %s unused in expressions: keys: {%s}", what, strings.Join(unused, ", "))
}

// readWholeStatement reads the whole body as one statement of a kind and parses its expressions. It fails if
// the body or an expression is invalid. It also stores in c.capacity whether the request asks for consumed
// capacity.
func (c *call) readWholeStatement(kind string) (*statement, error) {
	st := readStatement(c.in, kind)
	c.in.End()
	if err := c.in.Err(); err != nil {
		return nil, err
	}
	c.capacity = st.capacity
	return st, st.bindExpressions(c.db)
}
