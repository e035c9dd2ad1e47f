package ddbmem

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// backup is a table as it was at one moment. What a restore does not bring back is not in
// it: time to live, stream, tags, protection, point-in-time recovery.
type backup struct {
	arn, name, kind string // kind is USER or SYSTEM
	at              time.Time
	source          *table // as it was
}

// copyTable is a table with the items and indexes of t, and nothing else of it.
func (db *DB) copyTable(t *table, name string, at time.Time) *table {
	db.lastTable++
	c := &table{
		keySchema: t.keySchema, name: name, id: db.lastTable, created: at, kinds: maps.Clone(t.kinds), billing: t.billing,
		throughput: t.throughput, class: t.class, tags: map[string]string{}, store: t.clone(),
	}
	for _, ix := range t.indexes {
		c.indexes = append(c.indexes, &index{
			keySchema: ix.keySchema, name: ix.name, projection: ix.projection, include: slices.Clone(ix.include),
			throughput: ix.throughput, store: ix.clone(),
		})
	}
	return c
}

// clone is a store with the same rows, which never change.
func (s *store) clone() store {
	c := store{parts: make(map[value.Value]*partition, len(s.parts)), rows: s.rows}
	for hash, p := range s.parts {
		c.parts[hash] = &partition{hash: p.hash, code: p.code, rows: slices.Clone(p.rows)}
	}
	return c
}

// backUp keeps t as it is.
func (db *DB) backUp(t *table, name, kind string, at time.Time) *backup {
	b := &backup{name: name, kind: kind, at: at, source: db.copyTable(t, t.name, t.created)}
	b.source.id = t.id
	b.arn = fmt.Sprintf("%s/backup/%014d-%08x", t.arn(), at.UnixMilli(), len(db.backups)+1)
	db.backups = append(db.backups, b)
	return b
}

func (db *DB) findBackup(arn string) (*backup, error) {
	for _, b := range db.backups {
		if b != nil && b.arn == arn {
			return b, nil
		}
	}
	return nil, fail("BackupNotFoundException", "Backup not found: %s", arn)
}

// backupTable is a table by its name, as operations of backups miss it.
func (db *DB) backupTable(name string) (*table, error) {
	if t := db.tables[name]; t != nil {
		return t, nil
	}
	return nil, fail("TableNotFoundException", "Table not found: %s", name)
}

func (c *call) createBackup() error {
	table, name := "", ""
	c.in.Object(func(member string) {
		switch member {
		case "TableName":
			table = tableName(c.in)
		case "BackupName":
			name = c.in.String()
		default:
			c.in.Fail(unsupported(member + " in CreateBackup"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	if err := required(table != "", "tableName"); err != nil {
		return err
	}
	if err := checkName("backupName", name); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.backupTable(table)
	if err != nil {
		return err
	}
	c.out = append(c.backUp(t, name, "USER", c.at).appendDetails(append(wire.Field(c.out, "BackupDetails"), '{'), "AVAILABLE"), '}')
	return nil
}

// appendDetails appends the members of a BackupDetails.
func (b *backup) appendDetails(out []byte, status string) []byte {
	out = wire.AppendString(wire.Field(out, "BackupArn"), b.arn)
	out = wire.AppendString(wire.Field(out, "BackupName"), b.name)
	out = strconv.AppendInt(wire.Field(out, "BackupSizeBytes"), b.source.bytes(), 10)
	out = wire.AppendString(wire.Field(out, "BackupStatus"), status)
	out = wire.AppendString(wire.Field(out, "BackupType"), b.kind)
	return appendTime(wire.Field(out, "BackupCreationDateTime"), b.at)
}

// appendSource appends what a backup says about its table.
func (b *backup) appendSource(out []byte) []byte {
	out = wire.AppendString(wire.Field(out, "TableName"), b.source.name)
	out = wire.AppendString(wire.Field(out, "TableId"), uuid(b.source.id))
	return wire.AppendString(wire.Field(out, "TableArn"), b.source.arn())
}

// appendDescription appends a BackupDescription.
func (b *backup) appendDescription(out []byte, status string) []byte {
	out = append(wire.Field(append(out, '{'), "BackupDetails"), '{')
	out = append(wire.Field(append(b.appendDetails(out, status), '}'), "SourceTableDetails"), '{')
	t := b.source
	out = b.appendSource(out)
	out = appendTime(wire.Field(out, "TableCreationDateTime"), t.created)
	out = t.keySchema.append(out)
	out = strconv.AppendInt(wire.Field(out, "ItemCount"), int64(t.rows), 10)
	out = strconv.AppendInt(wire.Field(out, "TableSizeBytes"), t.bytes(), 10)
	out = wire.AppendString(wire.Field(out, "BillingMode"), t.billing)
	return append(t.throughput.append(out), '}', '}')
}

// onBackup answers a request whose only member is BackupArn.
func (c *call) onBackup(answer func(*backup)) error {
	arn := ""
	c.in.Object(func(member string) {
		if member != "BackupArn" {
			c.in.Fail(unsupported(member + " in " + c.operation))
			return
		}
		arn = c.in.String()
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	if err := required(arn != "", "backupArn"); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.findBackup(arn)
	if err != nil {
		return err
	}
	answer(b)
	return nil
}

func (c *call) describeBackup() error {
	return c.onBackup(func(b *backup) { c.out = b.appendDescription(wire.Field(c.out, "BackupDescription"), "AVAILABLE") })
}

func (c *call) deleteBackup() error {
	return c.onBackup(func(b *backup) {
		c.backups[slices.Index(c.backups, b)] = nil // the others keep their numbers
		c.out = b.appendDescription(wire.Field(c.out, "BackupDescription"), "DELETED")
	})
}

func (c *call) listBackups() error {
	table, start, kind, limit := "", "", "USER", int64(100)
	c.in.Object(func(member string) {
		switch member {
		case "TableName":
			table = tableName(c.in)
		case "Limit":
			limit = c.in.Int()
		case "ExclusiveStartBackupArn":
			start = c.in.String()
		case "BackupType":
			kind = oneOf(c.in, "backupType", "USER", "SYSTEM", "AWS_BACKUP", "ALL")
		default:
			c.in.Fail(unsupported(member + " in ListBackups"))
		}
	})
	if err := c.in.Err(); err != nil {
		return err
	}
	if limit < 1 || limit > 100 {
		return validation("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value between 1 and 100", limit)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	c.appendBackups(c.backupsOf(table, kind), start, limit)
	return nil
}

// appendBackups appends a page of backups, which begins after the one with the ARN start.
func (c *call) appendBackups(listed []*backup, start string, limit int64) {
	if i := slices.IndexFunc(listed, func(b *backup) bool { return b.arn == start }); i >= 0 {
		listed = listed[i+1:]
	}
	more := int64(len(listed)) > limit
	if more {
		listed = listed[:limit]
	}
	c.out = append(wire.Field(c.out, "BackupSummaries"), '[')
	for _, b := range listed {
		c.out = b.appendSource(append(wire.Comma(c.out), '{'))
		c.out = append(b.appendDetails(c.out, "AVAILABLE"), '}')
	}
	c.out = append(c.out, ']')
	if more {
		c.out = wire.AppendString(wire.Field(c.out, "LastEvaluatedBackupArn"), listed[limit-1].arn)
	}
}

// backupsOf are the backups of a table, "" for any, in the order in which they were made.
func (db *DB) backupsOf(table, kind string) []*backup {
	var all []*backup
	for _, b := range db.backups {
		if b != nil && (table == "" || b.source.name == table) && (kind == "ALL" || b.kind == kind) {
			all = append(all, b)
		}
	}
	return all
}
