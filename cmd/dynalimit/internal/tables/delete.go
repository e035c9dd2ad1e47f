package tables

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// countedPages is how many pages of a megabyte are counted before a table is deleted.
const countedPages = 20

// Loss is what goes with a table.
type Loss struct {
	Table string `json:"table"`
	// Items were counted just now; More says that there are more, and Known that DynamoDB
	// knew of so many up to six hours ago.
	Items int64 `json:"items"`
	More  bool  `json:"more"`
	Known int64 `json:"known_items"`
	// Protected says that deletion protection is on.
	Protected bool `json:"protected"`
	// Recovery says that DynamoDB keeps the last state for 35 days.
	Recovery On `json:"point_in_time_recovery"`
	// Backup is the newest backup that somebody made, nil for none.
	Backup *Backup `json:"backup,omitempty"`

	// id is DynamoDB's own for the table, "" where the engine gives none: a table that is
	// made anew under the name has another.
	id string
}

// Backup is a backup of a table.
type Backup struct {
	Name string    `json:"name"`
	ARN  string    `json:"arn"`
	At   time.Time `json:"at"`
}

// Weigh says what would be lost with a table; ok is false if there is none.
func Weigh(ctx context.Context, client Client, p Plan) (l Loss, ok bool, err error) {
	s, err := Look(ctx, client, p)
	if err != nil || !s.There() {
		return Loss{Table: p.Name()}, false, err
	}
	l = Loss{Table: p.Name(), Known: s.Items, Protected: s.Protection == Yes, Recovery: s.Recovery, id: s.id}
	if err := l.count(ctx, client); err != nil {
		return l, true, err
	}
	l.Backup, err = newestBackup(ctx, client, p.Name())
	return l, true, err
}

func (l *Loss) count(ctx context.Context, client Client) error {
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

func newestBackup(ctx context.Context, client Client, table string) (*Backup, error) {
	var newest *Backup
	in := &dynamodb.ListBackupsInput{TableName: &table}
	for {
		out, err := client.ListBackups(ctx, in)
		switch {
		case Unknown(err) || Denied(err):
			return nil, nil //nolint:nilnil // none that can be seen
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

// BackUp makes a backup and waits until it can be restored.
func BackUp(ctx context.Context, client Client, table, name string) (*Backup, error) {
	out, err := client.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: &table, BackupName: &name})
	if err != nil {
		return nil, fmt.Errorf("back %s up: %w; nothing was deleted", table, err)
	}
	arn := out.BackupDetails.BackupArn
	b := &Backup{name, aws.ToString(arn), aws.ToTime(out.BackupDetails.BackupCreationDateTime).UTC()}
	err = until(ctx, func() (bool, error) {
		out, err := client.DescribeBackup(ctx, &dynamodb.DescribeBackupInput{BackupArn: arn})
		return err == nil && out.BackupDescription.BackupDetails.BackupStatus == types.BackupStatusAvailable, err
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the backup %s of %s: %w; nothing was deleted", name, table, err)
	}
	return b, nil
}

// Delete deletes the table that was weighed and waits until it is gone. Whatever keeps it
// from being deleted, protection that was taken away is put back.
func Delete(ctx context.Context, client Client, l Loss) error {
	if err := l.begin(ctx, client); err != nil {
		return err
	}
	return until(ctx, func() (bool, error) {
		_, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &l.Table})
		if missing(err) {
			return true, nil
		}
		return false, err
	})
}

// begin has DynamoDB delete the table, or leaves it as it was.
func (l Loss) begin(ctx context.Context, client Client) error {
	if err := l.same(ctx, client); err != nil {
		return err
	}
	var err error
	if l.Protected {
		if err = protect(ctx, client, l.Table, false); err != nil {
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
	if problem := protect(again, client, l.Table, true); problem != nil {
		return fmt.Errorf("%w; its deletion protection could not be put back (%w): run 'dynalimit table create'", err, problem)
	}
	return err
}

// same fails for a table that is another one than was weighed, made anew under its name.
func (l Loss) same(ctx context.Context, client Client) error {
	if l.id == "" {
		return nil
	}
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &l.Table})
	switch {
	case err != nil:
		return fmt.Errorf("look at the table %s again: %w; nothing was deleted", l.Table, err)
	case aws.ToString(out.Table.TableId) != l.id:
		return fmt.Errorf("%s is another table by now, made anew under the name: nothing was deleted; run the command again to see what is in it", l.Table)
	}
	return nil
}

// protect turns deletion protection on or off, unless it is so, as soon as nothing else
// changes the table, and waits until that is in force.
func protect(ctx context.Context, client Client, table string, yes bool) error {
	found, err := active(ctx, client, table, func(*types.TableDescription) bool { return true })
	if err != nil || aws.ToBool(found.DeletionProtectionEnabled) == yes {
		return err
	}
	if _, err := client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &table, DeletionProtectionEnabled: &yes}); err != nil {
		return err
	}
	_, err = active(ctx, client, table, func(d *types.TableDescription) bool { return aws.ToBool(d.DeletionProtectionEnabled) == yes })
	return err
}
