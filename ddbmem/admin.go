package ddbmem

import (
	"fmt"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// readSoleTableName reads a request that has TableName as its only member and returns the name. It fails for
// other members or without a name.
func readSoleTableName(r *wire.Reader, operation string) (string, error) {
	name := ""
	r.Object(func(member string) {
		if member != "TableName" {
			r.Fail(unsupportedError(member + " in " + operation))
			return
		}
		name = readTableName(r)
	})
	if err := r.Err(); err != nil {
		return "", err
	}
	return name, requireMember(name != "", "tableName")
}

// createTable reads and checks a table definition and adds the empty table, with an open stream if requested.
// It appends the table's description to c.out, already with status ACTIVE. It fails if the table exists, and
// takes the commit lock.
func (c *call) createTable() error {
	d, err := readDefinition(c.in)
	if err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if c.db.tables[d.name] != nil {
		return newError("ResourceInUseException", "Table already exists: %s", d.name)
	}
	c.db.lastTable++
	t := &table{
		keySchema: d.keys, name: d.name, id: c.db.lastTable, created: c.at, kinds: d.kinds, billing: d.billing,
		throughput: d.throughput, class: d.class, protected: d.protected, indexes: d.indexes, store: newStore(),
	}
	if d.view != "" {
		c.db.openStream(t, d.view)
	}
	c.db.tables[d.name] = t
	c.out = t.appendDescription(wire.Field(c.out, "TableDescription"), "ACTIVE")
	return nil
}

// describeTable appends the JSON description of the requested table to c.out, always with status ACTIVE. It
// fails with ResourceNotFoundException if the table does not exist.
func (c *call) describeTable() error {
	name, err := readSoleTableName(c.in, c.operation)
	if err != nil {
		return err
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	t := c.db.tables[name]
	if t == nil {
		return noTableError(name)
	}
	c.out = t.appendDescription(wire.Field(c.out, "Table"), "ACTIVE")
	return nil
}

// deleteTable removes a table at once, disables its stream, and appends its description with status DELETING.
// The stream's records stay readable. It fails if the table does not exist or has deletion protection, and
// takes the commit lock.
func (c *call) deleteTable() error {
	name, err := readSoleTableName(c.in, c.operation)
	if err != nil {
		return err
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	t := c.db.tables[name]
	switch {
	case t == nil:
		return noTableError(name)
	case t.protected:
		return validationError("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
	}
	if t.stream != nil {
		t.stream.disable(c.at)
	}
	delete(c.db.tables, name)
	c.out = t.appendDescription(wire.Field(c.out, "TableDescription"), "DELETING")
	return nil
}

// listTables appends to c.out the table names after ExclusiveStartTableName, sorted, at most Limit (1 to 100,
// 100 unless given). LastEvaluatedTableName follows if more names remain. It fails for another Limit or member.
func (c *call) listTables() error {
	limit, start := int64(100), ""
	c.in.Object(func(member string) {
		switch member {
		case "Limit":
			limit = c.in.Int()
		case "ExclusiveStartTableName":
			start = c.in.String()
		default:
			c.in.Fail(unsupportedError(member + " in ListTables"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	if limit < 1 || limit > 100 {
		return validationError("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and 100", limit)
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	last := ""
	n := int64(0)
	c.out = append(wire.Field(c.out, "TableNames"), '[')
	for _, name := range c.db.tableNames() {
		if name <= start {
			continue
		}
		if n == limit {
			break
		}
		n++
		last = name
		c.out = wire.AppendString(wire.Comma(c.out), name)
	}
	c.out = append(c.out, ']')
	if n == limit && last != c.db.lastTableName() {
		c.out = wire.AppendString(wire.Field(c.out, "LastEvaluatedTableName"), last)
	}
	return nil
}

// arn returns the table's ARN, always in us-east-1 and account 000000000000.
func (t *table) arn() string { return "arn:aws:dynamodb:us-east-1:000000000000:table/" + t.name }

// uuidText returns the TableId of the table with number n, in the form of a UUID: n in hexadecimal is its end.
func uuidText(n int64) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }
