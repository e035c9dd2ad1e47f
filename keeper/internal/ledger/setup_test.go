package ledger

import (
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// aDay is one on which tests count, long over.
const aDay = "20990123"

var afterDays = time.Date(2099, 1, 27, 0, 0, 0, 0, time.UTC)

// anAccount counts a day in one shard.
func anAccount() Account {
	return Account{
		Org: "550e8400-e29b-41d4-a716-446655440000", Scope: "ORG#550e8400-e29b-41d4-a716-446655440000", Label: "premium", Day: aDay,
		Shards: 1,
	}
}

// newLedger is a ledger on a table in the process.
func newLedger(t *testing.T) *Ledger {
	l, _ := openLedger(t)
	return l
}

func openLedger(t *testing.T) (*Ledger, *ddbmem.DB) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	client := db.Client()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("usage"), BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("SK"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("SK"), AttributeType: types.ScalarAttributeTypeS},
		},
	})
	require.NoError(t, err)
	breaker := ddb.NewBreaker(ddb.BreakerOptions{})
	life := background.New()
	l := New(Options{
		Store: &store.Store{Client: client, Usage: "usage"}, Breaker: breaker, Life: life,
		Now: func() time.Time { return afterDays }, Logger: slog.New(slog.DiscardHandler), Fresh: time.Second, KeepDays: func() int { return 400 },
	})
	t.Cleanup(func() {
		l.Close()
		life.Close()
		l.Wait()
		life.Wait()
		life.Cancel()
		breaker.Stop()
	})
	return l, db
}
