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

// TestPointInTimeRecovery: off until it is enabled; its window begins there, and is at most
// 35 days long.
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
	set := func(s types.PointInTimeRecoverySpecification) error {
		_, err := e.client.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: table, PointInTimeRecoverySpecification: &s})
		return err
	}
	on := types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}
	require.Equal(t, types.PointInTimeRecoveryStatusDisabled, describe().PointInTimeRecoveryStatus)
	require.NoError(t, set(on))
	now = start.Add(time.Hour)
	require.NoError(t, set(on))
	require.Equal(t, types.PointInTimeRecoveryStatusEnabled, describe().PointInTimeRecoveryStatus)
	require.Equal(t, start, describe().EarliestRestorableDateTime.UTC())
	require.Equal(t, now, describe().LatestRestorableDateTime.UTC())
	now = start.Add(100 * 24 * time.Hour)
	require.Equal(t, now.Add(-35*24*time.Hour), describe().EarliestRestorableDateTime.UTC())
	wantCode(t, "ValidationException", set(types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true), RecoveryPeriodInDays: aws.Int32(7)}))
	require.NoError(t, set(types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(false)}))
	require.Equal(t, types.PointInTimeRecoveryStatusDisabled, describe().PointInTimeRecoveryStatus)

	_, err := e.client.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: aws.String("none")})
	wantCode(t, "TableNotFoundException", err)
}
