package ddbmem

import (
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// recoveryDays is for how many days back a point in time can be restored, unless fewer are
// asked for.
const recoveryDays = 35

// recovery is the point-in-time recovery of a table; since is zero while it is off.
type recovery struct {
	since time.Time
	days  int64
}

// readRecovery reads the table's name and the PointInTimeRecoverySpecification.
func (c *call) readRecovery() (name string, enabled bool, days int64, err error) {
	days = recoveryDays
	specified := false
	c.in.Object(func(member string) {
		switch member {
		case "TableName":
			name = tableName(c.in)
		case "PointInTimeRecoverySpecification":
			specified = true
			c.in.Object(func(m string) {
				switch m {
				case "PointInTimeRecoveryEnabled":
					enabled = c.in.Bool()
				case "RecoveryPeriodInDays":
					days = c.in.Int()
				default:
					c.in.Fail(unsupported(m + " in PointInTimeRecoverySpecification"))
				}
			})
		default:
			c.in.Fail(unsupported(member + " in UpdateContinuousBackups"))
		}
	})
	if err := c.in.Err(); err != nil {
		return "", false, 0, err
	}
	return name, enabled, days, required(specified, "pointInTimeRecoverySpecification")
}

func (c *call) updateContinuousBackups() error {
	name, enabled, days, err := c.readRecovery()
	if err != nil {
		return err
	}
	if days < 1 || days > recoveryDays {
		return validation("1 validation error detected: Value '%d' at 'pointInTimeRecoverySpecification.recoveryPeriodInDays' failed to satisfy constraint: Member must have value between 1 and 35", days)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.backupTable(name)
	if err != nil {
		return err
	}
	switch {
	case !enabled:
		t.recovery = recovery{}
	case t.recovery.since.IsZero():
		t.recovery = recovery{c.at, days}
	default:
		t.recovery.days = days
	}
	c.appendContinuousBackups(t)
	return nil
}

func (c *call) describeContinuousBackups() error {
	name, err := c.onlyTableName()
	if err != nil {
		return err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	t, err := c.backupTable(name)
	if err != nil {
		return err
	}
	c.appendContinuousBackups(t)
	return nil
}

func (c *call) appendContinuousBackups(t *table) {
	out := append(wire.Field(c.out, "ContinuousBackupsDescription"), '{')
	out = wire.AppendString(wire.Field(out, "ContinuousBackupsStatus"), "ENABLED")
	out = append(wire.Field(out, "PointInTimeRecoveryDescription"), '{')
	if t.recovery.since.IsZero() {
		out = wire.AppendString(wire.Field(out, "PointInTimeRecoveryStatus"), "DISABLED")
	} else {
		earliest := t.recovery.since
		if limit := c.at.Add(-time.Duration(t.recovery.days) * 24 * time.Hour); limit.After(earliest) {
			earliest = limit
		}
		out = wire.AppendString(wire.Field(out, "PointInTimeRecoveryStatus"), "ENABLED")
		out = strconv.AppendInt(wire.Field(out, "RecoveryPeriodInDays"), t.recovery.days, 10)
		out = appendTime(wire.Field(out, "EarliestRestorableDateTime"), earliest)
		out = appendTime(wire.Field(out, "LatestRestorableDateTime"), c.at)
	}
	c.out = append(out, '}', '}')
}

// restoration is what a RestoreTableFromBackup or RestoreTableToPointInTime asks for.
type restoration struct {
	target, backup, source, billing string
	latest                          bool
}

func (c *call) readRestoration() (*restoration, error) {
	r := &restoration{}
	c.in.Object(func(member string) {
		switch {
		case member == "TargetTableName":
			r.target = tableName(c.in)
		case member == "BillingModeOverride":
			r.billing = oneOf(c.in, "billingModeOverride", "PROVISIONED", "PAY_PER_REQUEST")
		case member == "BackupArn" && c.operation == "RestoreTableFromBackup":
			r.backup = c.in.String()
		case member == "SourceTableName" && c.operation == "RestoreTableToPointInTime":
			r.source = tableName(c.in)
		case member == "UseLatestRestorableTime" && c.operation == "RestoreTableToPointInTime":
			r.latest = c.in.Bool()
		default:
			c.in.Fail(unsupported(member + " in " + c.operation))
		}
	})
	if err := c.in.Err(); err != nil {
		return nil, err
	}
	if r.billing == "PROVISIONED" {
		return nil, unsupported("BillingModeOverride PROVISIONED in " + c.operation)
	}
	return r, required(r.target != "", "targetTableName")
}

func (c *call) restoreTableFromBackup() error {
	r, err := c.readRestoration()
	if err != nil {
		return err
	}
	if err := required(r.backup != "", "backupArn"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.findBackup(r.backup)
	if err != nil {
		return err
	}
	return c.restore(r, b.source, b.at)
}

func (c *call) restoreTableToPointInTime() error {
	r, err := c.readRestoration()
	if err != nil {
		return err
	}
	if err := required(r.source != "", "sourceTableName"); err != nil {
		return err
	}
	if !r.latest {
		return unsupported("a restore to any time but the latest")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.backupTable(r.source)
	if err != nil {
		return err
	}
	if t.recovery.since.IsZero() {
		return fail("PointInTimeRecoveryUnavailableException", "Point in time recovery is not enabled for table '%s'", t.name)
	}
	return c.restore(r, t, c.at)
}

// restore makes a table of the items of another.
func (c *call) restore(r *restoration, from *table, at time.Time) error {
	if c.tables[r.target] != nil {
		return fail("TableAlreadyExistsException", "Table already exists: %s", r.target)
	}
	t := c.copyTable(from, r.target, c.at)
	if r.billing != "" {
		t.billing, t.throughput = r.billing, throughput{}
	}
	c.tables[t.name] = t
	c.out = t.appendDescription(wire.Field(c.out, "TableDescription"), "ACTIVE")
	c.out = c.out[:len(c.out)-1] // the summary is one more member
	c.out = append(wire.Field(c.out, "RestoreSummary"), '{')
	if r.backup != "" {
		c.out = wire.AppendString(wire.Field(c.out, "SourceBackupArn"), r.backup)
	}
	c.out = wire.AppendString(wire.Field(c.out, "SourceTableArn"), from.arn())
	c.out = appendTime(wire.Field(c.out, "RestoreDateTime"), at)
	c.out = append(append(wire.Field(c.out, "RestoreInProgress"), "false"...), '}', '}')
	return nil
}
