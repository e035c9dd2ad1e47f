package budget

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Health is whether the store answers, and what waits for it.
type Health struct {
	// Ready says that calls can be served: the store answers, or OnUnavailable
	// lets Recommend go on without it.
	Ready bool
	// Open says that the store does not answer, since Since, because of Cause. It
	// is probed in the background; the next probe is at NextProbe.
	Open      bool
	Since     time.Time // zero while it answers
	Cause     error     // nil while it answers
	NextProbe time.Time // zero while it answers
	// Queued is how many operations wait in this process to be written, Spooled
	// how many records wait in the spool.
	Queued, Spooled int
}

// connect makes the store over a user's client. While a table is known not to
// answer its requests fail at once; one goroutine asks it in the background.
func (k *core) connect(client Client, tables Tables) {
	var patient *ddb.Client
	breaker := func(table string) *ddb.Breaker {
		return ddb.NewBreaker(ddb.BreakerOptions{
			Probe:  func(ctx context.Context) error { return probe(ctx, patient, table) },
			Logger: k.opts.Logger.With("table", table),
		})
	}
	k.tables = breakers{usage: breaker(tables.Usage), control: breaker(tables.Control)}
	patient = ddb.Watch(client, k.tables.usage, k.clock, k.opts.RequestTimeout).Beside(tables.Control, k.tables.control)
	k.client = patient.Hasty()
	k.store = &store.Store{Client: k.client, Control: tables.Control, Usage: tables.Usage}
}

// probe asks a table for proof that it takes writes: an update of an absent item
// whose condition cannot hold, so that it never writes.
func probe(ctx context.Context, client Client, table string) error {
	_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &table, Key: store.Key{PK: "PROBE#" + store.NewID(), SK: "PROBE"}.Attributes(),
		ConditionExpression: aws.String("attribute_exists(PK) AND attribute_not_exists(PK)"),
	}, store.Once)
	return err
}

// patience bounds a call's use of the store.
func (o Options) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, o.Timeout)
}
