package ddbmem

import (
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// recoveryWindow is how far back a point in time can be restored.
const recoveryWindow = 35 * 24 * time.Hour

// updateContinuousBackups turns a table's point-in-time recovery on or off under the commit lock and appends
// its description. Enabling it again keeps its start time. It fails if the table does not exist or the
// specification is missing.
func (c *call) updateContinuousBackups() error {
	name, specified, enabled := "", false, false
	c.in.Object(func(member string) {
		switch member {
		case "TableName":
			name = readTableName(c.in)
		case "PointInTimeRecoverySpecification":
			specified = true
			c.in.Object(func(m string) {
				if m != "PointInTimeRecoveryEnabled" {
					c.in.Fail(unsupportedError(m + " in PointInTimeRecoverySpecification"))
					return
				}
				enabled = c.in.Bool()
			})
		default:
			c.in.Fail(unsupportedError(member + " in UpdateContinuousBackups"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	if err := requireMember(specified, "pointInTimeRecoverySpecification"); err != nil {
		return err
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	return c.answerRecovery(name, func(t *table) {
		switch {
		case !enabled:
			t.recovery = time.Time{}
		case t.recovery.IsZero():
			t.recovery = c.at
		}
	})
}

// describeContinuousBackups appends the description of a table's point-in-time recovery. It fails if the
// table does not exist.
func (c *call) describeContinuousBackups() error {
	name, err := readSoleTableName(c.in, c.operation)
	if err != nil {
		return err
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	return c.answerRecovery(name, func(*table) {})
}

// answerRecovery calls change with the table of that name and appends the description of its point-in-time
// recovery. It fails if the table does not exist. The commit lock must be held.
func (c *call) answerRecovery(name string, change func(*table)) error {
	t := c.db.tables[name]
	if t == nil {
		return newError("TableNotFoundException", "Table not found: %s", name)
	}
	change(t)
	out := append(wire.Field(c.out, "ContinuousBackupsDescription"), '{')
	out = wire.AppendString(wire.Field(out, "ContinuousBackupsStatus"), "ENABLED")
	out = append(wire.Field(out, "PointInTimeRecoveryDescription"), '{')
	if t.recovery.IsZero() {
		out = wire.AppendString(wire.Field(out, "PointInTimeRecoveryStatus"), "DISABLED")
	} else {
		earliest := t.recovery
		if limit := c.at.Add(-recoveryWindow); limit.After(earliest) {
			earliest = limit
		}
		out = wire.AppendString(wire.Field(out, "PointInTimeRecoveryStatus"), "ENABLED")
		out = appendTime(wire.Field(out, "EarliestRestorableDateTime"), earliest)
		out = appendTime(wire.Field(out, "LatestRestorableDateTime"), c.at)
	}
	c.out = append(out, '}', '}')
	return nil
}
