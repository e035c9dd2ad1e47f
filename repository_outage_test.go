package dynalimit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// Reads, writes, batches, transactions and queries: each tells whether the table
// answers.
func TestEveryRequestTellsTheBreaker(t *testing.T) {
	for name, request := range map[string]func(context.Context, *Repository) error{
		"GetItem": func(ctx context.Context, r *Repository) error {
			_, err := r.store.Get(ctx, "test", r.keys.Meta("user-1"))
			return err
		},
		"BatchGetItem": func(ctx context.Context, r *Repository) error {
			_, err := r.configs.Reread(ctx, config.GivenKey{Key: config.Key{Entity: "user-1", Resource: "gpt-4"}})
			return err
		},
		"BatchWriteItem": func(ctx context.Context, r *Repository) error {
			return r.store.BatchDelete(ctx, "delete", []schema.Key{r.keys.Meta("user-1")})
		},
		"Query": func(ctx context.Context, r *Repository) error {
			_, err := r.store.Keys(ctx, table.Query{Hash: schema.PK, Value: r.keys.Entity("user-1"), Prefix: schema.ConfigsOf})
			return err
		},
		"TransactWriteItems": func(ctx context.Context, r *Repository) error {
			writes := []types.TransactWriteItem{r.store.DeletePart(r.keys.Meta("user-1"), schema.Statement{})}
			_, err := r.store.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
			return err
		},
		"UpdateItem": func(ctx context.Context, r *Repository) error { return r.buckets.ProbeTable(ctx) },
		"PutItem": func(ctx context.Context, r *Repository) error {
			return tableMaker{r.connection}.writeVersion(ctx, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := testworld.NewMem(t)
				r := memRepository(t, db)
				defer r.listen(&hearer{})()
				db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					if q.Operation == name || q.Operation == "UpdateItem" { // the probes too: an answer of theirs would be proof of life
						return ddbmem.Fault{Before: time.Hour}
					}
					return ddbmem.Fault{}
				})
				opened, answers := r.breaker.Opened(), r.breaker.LastAnswer()
				require.Error(t, request(t.Context(), r))
				assert.Equal(t, answers, r.breaker.LastAnswer())
				select {
				case <-opened:
				default:
					assert.Fail(t, "it did not open")
				}
				db.SetFaults(nil)
				<-r.breaker.Closed()
				<-time.After(time.Second)
				_ = request(t.Context(), r)
				assert.Equal(t, time.Now(), r.breaker.LastAnswer())
			})
		})
	}
}
