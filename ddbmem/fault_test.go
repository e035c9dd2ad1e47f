package ddbmem_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// onceFor is a fault for the first request of the operation.
func onceFor(operation string, f ddbmem.Fault) ddbmem.FaultFunc {
	done := false
	return func(r *ddbmem.Request) ddbmem.Fault {
		if done || r.Operation != operation {
			return ddbmem.Fault{}
		}
		done = true
		return f
	}
}

func once(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }

func addOne(ctx context.Context, client *dynamodb.Client) error {
	_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String("faults"), Key: item{"PK": str("a")}, UpdateExpression: aws.String("ADD n :one"),
		ExpressionAttributeValues: item{":one": num(1)},
	})
	return err
}

func count(t *testing.T, client *dynamodb.Client) string {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("faults"), Key: item{"PK": str("a")}})
	require.NoError(t, err)
	if out.Item == nil {
		return "absent"
	}
	return out.Item["n"].(*types.AttributeValueMemberN).Value
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name  string
		fault ddbmem.Fault
		fails bool // with a single try
		after string
		again string // with the SDK's own retries
	}{
		{"none", ddbmem.Fault{}, false, "1", "1"},
		{"dropped request", ddbmem.Fault{Drop: true}, true, "absent", "1"},
		{"lost answer", ddbmem.Fault{Lose: true}, true, "1", "2"},
		{"throttled", ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}, true, "absent", "1"},
		{"server error", ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}, true, "absent", "1"},
		{"not retryable", ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}, true, "absent", "absent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := ddbmem.New()
				defer db.Close()
				client := db.Client(once)
				createTable(t, client, "faults", false)
				db.SetFaults(onceFor("UpdateItem", tt.fault))
				err := addOne(t.Context(), client)
				require.Equal(t, tt.fails, err != nil, "%v", err)
				require.Equal(t, tt.after, count(t, client))

				db = ddbmem.New()
				client = db.Client()
				createTable(t, client, "faults", false)
				db.SetFaults(onceFor("UpdateItem", tt.fault))
				_ = addOne(t.Context(), client) // the item tells
				require.Equal(t, tt.again, count(t, client))
			})
		})
	}
}

func TestLateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		client := db.Client(once)
		createTable(t, client, "faults", false)
		let := make(chan struct{})
		db.SetFaults(onceFor("UpdateItem", ddbmem.Fault{Late: let}))
		require.ErrorContains(t, addOne(t.Context(), client), "connection reset")
		require.Equal(t, "absent", count(t, client))
		require.NoError(t, addOne(t.Context(), client))
		close(let)
		db.Wait()
		require.Equal(t, "2", count(t, client))
		db.SetFaults(onceFor("UpdateItem", ddbmem.Fault{Late: make(chan struct{})}))
		require.Error(t, addOne(t.Context(), client))
		db.Close() // drops it
		require.Equal(t, "2", count(t, client))
	})
}
