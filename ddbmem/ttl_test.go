package ddbmem_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

func setTTL(t *testing.T, e engine, table *string, enabled bool) error {
	t.Helper()
	_, err := e.client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: &enabled},
	})
	return err
}

func TestTimeToLiveSettings(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		describe := func() *types.TimeToLiveDescription {
			out, err := e.client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: table})
			require.NoError(t, err)
			return out.TimeToLiveDescription
		}
		require.Equal(t, types.TimeToLiveStatusDisabled, describe().TimeToLiveStatus)
		require.Contains(t, wantCode(t, "ValidationException", setTTL(t, e, table, false)), "already disabled")
		require.NoError(t, setTTL(t, e, table, true))
		require.Equal(t, types.TimeToLiveStatusEnabled, describe().TimeToLiveStatus)
		require.Equal(t, "ttl", *describe().AttributeName)
		require.Contains(t, wantCode(t, "ValidationException", setTTL(t, e, table, true)), "already enabled")
		require.NoError(t, setTTL(t, e, table, false))
		require.Equal(t, types.TimeToLiveStatusDisabled, describe().TimeToLiveStatus)
	})
}

func TestExpiry(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{db.Client(once), db.StreamsClient()}
	table := e.table(t, false, withStream(types.StreamViewTypeNewAndOldImages))
	r := openStream(t, e, table)
	var writes []ddbmem.Write
	db.OnWrite(func(w ddbmem.Write) { writes = append(writes, w) })
	at := func(d time.Duration) av { return num(start.Add(d).Unix()) }
	put(t, e, table, item{"PK": str("soon"), "ttl": at(10 * time.Second)})
	put(t, e, table, item{"PK": str("later"), "ttl": at(time.Hour)})
	put(t, e, table, item{"PK": str("text"), "ttl": str("10")})
	put(t, e, table, item{"PK": str("ancient"), "ttl": num(1)})
	put(t, e, table, item{"PK": str("none")})
	now = start.Add(time.Minute)
	require.Zero(t, db.ExpireNow(), "before time to live is enabled")
	now = start
	require.NoError(t, setTTL(t, e, table, true))
	for _, step := range []struct {
		after   time.Duration
		expired int
	}{{0, 0}, {10 * time.Second, 0}, {11 * time.Second, 1}, {11 * time.Second, 0}, {2 * time.Hour, 1}} {
		now = start.Add(step.after)
		require.Equal(t, step.expired, db.ExpireNow(), step.after)
	}
	for key, want := range map[string]string{"soon": "{}", "later": "{}", "text": `{PK="text" ttl="10"}`, "ancient": `{PK="ancient" ttl=1}`, "none": `{PK="none"}`} {
		require.Equal(t, want, get(t, e, table, item{"PK": str(key)}))
	}
	last := writes[len(writes)-1]
	require.True(t, last.Expired)
	require.Empty(t, last.Operation)
	require.Nil(t, last.New)
	records, _ := r.records(t, r.iterator(t, streamtypes.ShardIteratorTypeTrimHorizon, nil), 1000)
	removal := records[len(records)-1]
	require.Equal(t, streamtypes.OperationTypeRemove, removal.EventName)
	require.Equal(t, "Service", *removal.UserIdentity.Type)
	require.Equal(t, "dynamodb.amazonaws.com", *removal.UserIdentity.PrincipalId)
	require.Nil(t, records[0].UserIdentity)
}
