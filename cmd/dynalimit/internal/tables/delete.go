package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// countedPages is the number of pages of a megabyte that are counted before a deletion.
const countedPages = 20

// Loss is the loss caused by deleting a table.
type Loss struct {
	Table string `json:"table"`
	// Items were counted just now. More is true if there are more, and Known is DynamoDB's
	// count, up to six hours old.
	Items int64 `json:"items"`
	More  bool  `json:"more"`
	Known int64 `json:"known_items"`
	// Protected is true if deletion protection is on.
	Protected bool `json:"protected"`
	// Recovery is on if DynamoDB keeps the last state for 35 days.
	Recovery On `json:"point_in_time_recovery"`
	// Backup is the newest manual backup, or nil.
	Backup *Backup `json:"backup,omitempty"`

	// id is DynamoDB's id of the table, or "" if the engine has none. A new table with the same
	// name has another id.
	id string
}

// Backup is a backup of a table.
type Backup struct {
	Name string    `json:"name"`
	ARN  string    `json:"arn"`
	At   time.Time `json:"at"`
}

// PreviewDelete returns the loss of deleting a table: its counted items, its settings and its newest backup. It
// deletes nothing. ok is false if the table does not exist or could not be described.
func PreviewDelete(ctx context.Context, client Client, p Plan) (l Loss, ok bool, err error) {
	s, err := Look(ctx, client, p)
	if err != nil || !s.Exists() {
		return Loss{Table: p.Name()}, false, err
	}
	l = Loss{Table: p.Name(), Known: s.Items, Protected: s.Protection == Yes, Recovery: s.Recovery, id: s.id}
	if err := l.countItems(ctx, client); err != nil {
		return l, true, err
	}
	l.Backup, err = newestBackup(ctx, client, p.Name())
	return l, true, err
}

// countItems adds the table's items to l.Items by a scan of at most countedPages pages of a megabyte. It sets
// l.More if the table has more pages.
func (l *Loss) countItems(ctx context.Context, client Client) error {
	in := &dynamodb.ScanInput{TableName: &l.Table, Select: types.SelectCount}
	for range countedPages {
		out, err := client.Scan(ctx, in)
		if err != nil {
			return fmt.Errorf("count the items of %s: %w", l.Table, err)
		}
		l.Items += int64(out.Count)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return nil
		}
	}
	l.More = true
	return nil
}

// newestBackup returns the newest backup of a table that can be restored, over all pages. It returns nil
// without an error if none exists, and if the engine does not list backups or denies it.
func newestBackup(ctx context.Context, client Client, table string) (*Backup, error) {
	var newest *Backup
	in := &dynamodb.ListBackupsInput{TableName: &table}
	for {
		out, err := client.ListBackups(ctx, in)
		switch {
		case IsUnknown(err) || IsDenied(err):
			return nil, nil //nolint:nilnil // none is visible
		case err != nil:
			return nil, fmt.Errorf("list the backups of %s: %w", table, err)
		}
		for _, b := range out.BackupSummaries {
			if at := aws.ToTime(b.BackupCreationDateTime); b.BackupStatus == types.BackupStatusAvailable && (newest == nil || !at.Before(newest.At)) {
				newest = &Backup{aws.ToString(b.BackupName), aws.ToString(b.BackupArn), at.UTC()}
			}
		}
		if in.ExclusiveStartBackupArn = out.LastEvaluatedBackupArn; in.ExclusiveStartBackupArn == nil {
			return newest, nil
		}
	}
}

// BackUp makes a backup named name of a table and waits until it can be restored, at most 10 minutes. It
// returns nil and an error if either fails.
func BackUp(ctx context.Context, client Client, table, name string) (*Backup, error) {
	out, err := client.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: &table, BackupName: &name})
	if err != nil {
		return nil, fmt.Errorf("back %s up: %w; nothing was deleted", table, err)
	}
	arn := out.BackupDetails.BackupArn
	b := &Backup{name, aws.ToString(arn), aws.ToTime(out.BackupDetails.BackupCreationDateTime).UTC()}
	err = pollUntil(ctx, func() (bool, error) {
		out, err := client.DescribeBackup(ctx, &dynamodb.DescribeBackupInput{BackupArn: arn})
		return err == nil && out.BackupDescription.BackupDetails.BackupStatus == types.BackupStatusAvailable, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the backup %s of %s: %w; nothing was deleted", name, table, err)
	}
	return b, nil
}

// Delete deletes the table that PreviewDelete described, also a protected one, and waits until it is gone, at
// most 10 minutes. It fails if another table of this name has replaced it. If the deletion is refused, it
// restores the protection.
func Delete(ctx context.Context, client Client, l Loss) error {
	if err := l.beginDelete(ctx, client); err != nil {
		return err
	}
	return pollUntil(ctx, func() (bool, error) {
		_, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &l.Table})
		if isMissing(err) {
			return true, nil
		}
		return false, err
	})
}

// beginDelete removes the table's deletion protection and requests its deletion, without waiting. It fails if
// another table of the name has replaced it. If the request fails, it restores the protection, even after ctx
// has ended.
func (l Loss) beginDelete(ctx context.Context, client Client) error {
	if err := l.checkSame(ctx, client); err != nil {
		return err
	}
	var err error
	if l.Protected {
		if err = setProtection(ctx, client, l.Table, false); err != nil {
			err = fmt.Errorf("remove the deletion protection of %s: %w; nothing was deleted", l.Table, err)
		}
	}
	if err == nil {
		if _, err = client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &l.Table}); err != nil {
			err = fmt.Errorf("delete the table %s: %w", l.Table, err)
		}
	}
	if err == nil || !l.Protected {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if problem := setProtection(again, client, l.Table, true); problem != nil {
		return fmt.Errorf("%w; its deletion protection could not be put back (%w): run 'dynalimit table create'", err, problem)
	}
	return err
}

// checkSame describes the table again, and fails if another table with the same name has replaced it since
// PreviewDelete. It returns nil for an engine without ids of tables.
func (l Loss) checkSame(ctx context.Context, client Client) error {
	if l.id == "" {
		return nil
	}
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &l.Table})
	switch {
	case err != nil:
		return fmt.Errorf("look at the table %s again: %w; nothing was deleted", l.Table, err)
	case aws.ToString(out.Table.TableId) != l.id:
		return fmt.Errorf("%s was replaced by another table of the same name: nothing was deleted; run the command again to see its content", l.Table)
	}
	return nil
}

// setProtection turns deletion protection on if yes is true, else off, once no other change is running, and
// waits until that is in force. It sends no change if it is in force already. Each wait ends after 10 minutes.
func setProtection(ctx context.Context, client Client, table string, yes bool) error {
	found, err := awaitActive(ctx, client, table, func(*types.TableDescription) bool { return true })
	if err != nil || aws.ToBool(found.DeletionProtectionEnabled) == yes {
		return err
	}
	if _, err := client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &table, DeletionProtectionEnabled: &yes}); err != nil {
		return err
	}
	_, err = awaitActive(ctx, client, table, func(d *types.TableDescription) bool { return aws.ToBool(d.DeletionProtectionEnabled) == yes })
	return err
}
