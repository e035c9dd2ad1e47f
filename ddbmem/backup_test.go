package ddbmem_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

func getText(t *testing.T, e engine, table, key string) string {
	t.Helper()
	out, err := e.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: item{"PK": str(key)}})
	require.NoError(t, err)
	return showItems([]item{out.Item})
}

// TestBackupAndRestore: a restored table has the items of the moment of the backup, in its
// indexes too, and nothing of what DynamoDB does not restore.
func TestBackupAndRestore(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		ctx := t.Context()
		table := e.table(t, false, withStream(types.StreamViewTypeNewImage), func(in *dynamodb.CreateTableInput) {
			in.DeletionProtectionEnabled = aws.Bool(true)
			in.Tags = []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}
		})
		require.NoError(t, setTTL(t, e, table, true))
		put(t, e, table, item{"PK": str("a"), "x": num(1)})
		made, err := e.client.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: table, BackupName: aws.String("before")})
		require.NoError(t, err)
		require.Equal(t, types.BackupStatusAvailable, made.BackupDetails.BackupStatus)
		put(t, e, table, item{"PK": str("a"), "x": num(2)})
		put(t, e, table, item{"PK": str("b"), "x": num(3)})

		described, err := e.client.DescribeBackup(ctx, &dynamodb.DescribeBackupInput{BackupArn: made.BackupDetails.BackupArn})
		require.NoError(t, err)
		require.EqualValues(t, 1, *described.BackupDescription.SourceTableDetails.ItemCount)
		require.Equal(t, *table, *described.BackupDescription.SourceTableDetails.TableName)

		target := *table + "-restored"
		restored, err := e.client.RestoreTableFromBackup(ctx, &dynamodb.RestoreTableFromBackupInput{TargetTableName: &target, BackupArn: made.BackupDetails.BackupArn})
		require.NoError(t, err)
		require.Equal(t, *made.BackupDetails.BackupArn, *restored.TableDescription.RestoreSummary.SourceBackupArn)
		require.Equal(t, types.BillingModePayPerRequest, restored.TableDescription.BillingModeSummary.BillingMode)
		require.Equal(t, `{PK="a" x=1}`, getText(t, e, target, "a"))
		require.NotContains(t, getText(t, e, target, "b"), "3")

		d, err := e.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &target})
		require.NoError(t, err)
		require.False(t, *d.Table.DeletionProtectionEnabled)
		require.Nil(t, d.Table.StreamSpecification)
		ttl, err := e.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &target})
		require.NoError(t, err)
		require.Equal(t, types.TimeToLiveStatusDisabled, ttl.TimeToLiveDescription.TimeToLiveStatus)
		tags, err := e.client.ListTagsOfResource(ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: d.Table.TableArn})
		require.NoError(t, err)
		require.Empty(t, tags.Tags)

		put(t, e, &target, item{"PK": str("a"), "x": num(9)})
		require.Equal(t, `{PK="a" x=2}`, getText(t, e, *table, "a"), "the two are apart")

		_, err = e.client.RestoreTableFromBackup(ctx, &dynamodb.RestoreTableFromBackupInput{TargetTableName: &target, BackupArn: made.BackupDetails.BackupArn})
		wantCode(t, "TableAlreadyExistsException", err)
		_, err = e.client.DeleteBackup(ctx, &dynamodb.DeleteBackupInput{BackupArn: made.BackupDetails.BackupArn})
		require.NoError(t, err)
		_, err = e.client.DescribeBackup(ctx, &dynamodb.DescribeBackupInput{BackupArn: made.BackupDetails.BackupArn})
		wantCode(t, "BackupNotFoundException", err)
		_, err = e.client.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: aws.String("no-such-table"), BackupName: aws.String("before")})
		wantCode(t, "TableNotFoundException", err)
		_, err = e.client.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: table, BackupName: aws.String("be fore")})
		wantCode(t, "ValidationException", err)
	})
}

// TestRestoredIndex: queries of a restored index find what the backup has.
func TestRestoredIndex(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, true, withIndex)
		put(t, e, table, item{"PK": str("a"), "SK": str("1"), "g": str("G"), "h": num(1), "n": num(1)})
		made, err := e.client.CreateBackup(t.Context(), &dynamodb.CreateBackupInput{TableName: table, BackupName: aws.String("one")})
		require.NoError(t, err)
		put(t, e, table, item{"PK": str("b"), "SK": str("1"), "g": str("G"), "h": num(2), "n": num(2)})
		_, err = e.client.RestoreTableFromBackup(t.Context(), &dynamodb.RestoreTableFromBackupInput{TargetTableName: aws.String(*table + "-r"), BackupArn: made.BackupDetails.BackupArn})
		require.NoError(t, err)
		found := func(name string) string {
			out, err := e.client.Query(t.Context(), &dynamodb.QueryInput{
				TableName: &name, IndexName: aws.String("byG"), KeyConditionExpression: aws.String("g = :g"), ExpressionAttributeValues: item{":g": str("G")},
			})
			require.NoError(t, err)
			return showItems(out.Items)
		}
		require.Equal(t, `{PK="a" SK="1" g="G" h=1 n=1}`, found(*table+"-r"))
		require.Contains(t, found(*table), `PK="b"`)
		put(t, e, aws.String(*table+"-r"), item{"PK": str("c"), "SK": str("1"), "g": str("G"), "h": num(0), "n": num(2)})
		require.NotContains(t, found(*table), `PK="c"`, "the two are apart")
	})
}

func TestBackupsAreListedInPages(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table, other := e.table(t, false), e.table(t, false)
		for _, name := range []string{"one", "two", "three"} {
			_, err := e.client.CreateBackup(t.Context(), &dynamodb.CreateBackupInput{TableName: table, BackupName: &name})
			require.NoError(t, err)
		}
		_, err := e.client.CreateBackup(t.Context(), &dynamodb.CreateBackupInput{TableName: other, BackupName: aws.String("others")})
		require.NoError(t, err)
		var names []string
		in := &dynamodb.ListBackupsInput{TableName: table, Limit: aws.Int32(2)}
		for {
			out, err := e.client.ListBackups(t.Context(), in)
			require.NoError(t, err)
			for _, b := range out.BackupSummaries {
				names = append(names, *b.BackupName)
			}
			if in.ExclusiveStartBackupArn = out.LastEvaluatedBackupArn; in.ExclusiveStartBackupArn == nil {
				break
			}
		}
		require.Equal(t, []string{"one", "two", "three"}, names)
	})
}

// TestPointInTimeRecovery: off until it is enabled; its window grows; a protected table's
// last state outlives it.
func TestPointInTimeRecovery(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false)
	describe := func() *types.PointInTimeRecoveryDescription {
		out, err := e.client.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: table})
		require.NoError(t, err)
		require.Equal(t, types.ContinuousBackupsStatusEnabled, out.ContinuousBackupsDescription.ContinuousBackupsStatus)
		return out.ContinuousBackupsDescription.PointInTimeRecoveryDescription
	}
	set := func(on bool, days *int32) error {
		_, err := e.client.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{
			TableName: table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: &on, RecoveryPeriodInDays: days},
		})
		return err
	}
	restore := func() error {
		_, err := e.client.RestoreTableToPointInTime(t.Context(), &dynamodb.RestoreTableToPointInTimeInput{
			SourceTableName: table, TargetTableName: aws.String("restored"), UseLatestRestorableTime: aws.Bool(true),
		})
		return err
	}
	require.Equal(t, types.PointInTimeRecoveryStatusDisabled, describe().PointInTimeRecoveryStatus)
	wantCode(t, "PointInTimeRecoveryUnavailableException", restore())
	require.NoError(t, set(true, nil))
	now = start.Add(time.Hour)
	require.Equal(t, types.PointInTimeRecoveryStatusEnabled, describe().PointInTimeRecoveryStatus)
	require.Equal(t, start, describe().EarliestRestorableDateTime.UTC())
	require.Equal(t, now, describe().LatestRestorableDateTime.UTC())
	now = start.Add(100 * 24 * time.Hour)
	require.Equal(t, now.Add(-35*24*time.Hour), describe().EarliestRestorableDateTime.UTC())
	require.NoError(t, set(true, aws.Int32(7)))
	require.Equal(t, now.Add(-7*24*time.Hour), describe().EarliestRestorableDateTime.UTC())
	wantCode(t, "ValidationException", set(true, aws.Int32(36)))

	put(t, e, table, item{"PK": str("a"), "x": num(1)})
	require.NoError(t, restore())
	require.Equal(t, `{PK="a" x=1}`, getText(t, e, "restored", "a"))
	wantCode(t, "TableAlreadyExistsException", restore())

	_, err := e.client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: table})
	require.NoError(t, err)
	out, err := e.client.ListBackups(t.Context(), &dynamodb.ListBackupsInput{BackupType: types.BackupTypeFilterSystem})
	require.NoError(t, err)
	require.Len(t, out.BackupSummaries, 1)
	require.Equal(t, *table+"$DeletedTableBackup", *out.BackupSummaries[0].BackupName)
	_, err = e.client.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: table})
	wantCode(t, "TableNotFoundException", err)
}
