package budget

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// unending answers queries of a table with pages of nothing, each after 10 ms.
type unending struct {
	Client
	table string
	pages int
}

func (c *unending) Query(ctx context.Context, in *dynamodb.QueryInput, f ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if *in.TableName != c.table {
		return c.Client.Query(ctx, in, f...)
	}
	if c.pages++; c.pages > 10_000 {
		return nil, errors.New("asked without end")
	}
	select {
	case <-time.After(10 * time.Millisecond):
		return &dynamodb.QueryOutput{Items: []store.Item{}, LastEvaluatedKey: store.Key{PK: "a", SK: "b"}.Attributes()}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestSumsHaveADeadline: a store that answers and never finishes is asked for as long as a call
// may wait.
func TestSumsHaveADeadline(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, _ *Keeper) {
		client := &unending{Client: db.Client(), table: "usage"}
		k, err := New(client, Tables{Control: "control", Usage: "usage"}, &Options{AllowUnknownApps: true, Models: fixtureModels, Timeout: time.Second})
		require.NoError(t, err)
		for name, read := range map[string]func() error{
			"Totals": func() error {
				_, err := k.Totals(t.Context(), orgO, appA, "")
				return err
			},
			"TagTotals": func() error {
				_, err := k.TagTotals(t.Context(), orgO, appA, "", "user")
				return err
			},
			"History": func() error {
				for _, err := range k.History(t.Context(), orgO, appA, "20990101", "20990131") {
					return err
				}
				return nil
			},
		} {
			began := time.Now()
			err := read()
			require.ErrorIs(t, err, fault.ErrUnavailable, name)
			assert.Equal(t, time.Second, time.Since(began), name)
		}
		require.NoError(t, k.Close(context.Background()))
	})
}
